//! The rules of a consumer's settings.

rules! {
    duration_form(text) = "\"{text}\" is not a duration: write a whole number and a unit of `ms`, `s`, `m` or `h`, such as \"500ms\" or \"30s\"";
    duration_zero(text) = "\"{text}\" is no time at all: a duration is at least \"1ms\"";
    duration_long(text) = "\"{text}\" is longer than a year: a duration is at most \"8760h\"";
    delays_form(text) = "\"{text}\" is not a range of durations: write the first and the longest delay, such as \"1s..10m\"";
    delays_order(low, high) = "the first delay, \"{low}\", is longer than the longest, \"{high}\"";
    prefetch_low(prefetch, concurrency) = "a `prefetch` of {prefetch} leaves some of {concurrency} runs idle: it is at least `concurrency`";
    immediate_high(immediate, max_attempts) = "{immediate} immediate retries and the first run are more than `max_attempts = {max_attempts}`: `immediate` is less than `max_attempts`";
}
