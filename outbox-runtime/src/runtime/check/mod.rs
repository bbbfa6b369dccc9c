//! What is wrong with settings, and what they mean together. Pure, but for the telling.

mod notices;
mod places;
mod relay;

use std::time::Duration;

use crate::error::StartProblem;
use crate::event::EventDescriptor;
use crate::runtime::RuntimeBuilder;

/// Everything that keeps a runtime with these settings from starting.
pub(super) fn problems(builder: &RuntimeBuilder) -> Vec<StartProblem> {
    let mut problems = places::problems(builder);
    problems.extend(relay::problems(builder));
    problems
}

/// Tells, in the log, what the settings come to, and which of them disagree without being wrong.
pub(super) fn tell(builder: &RuntimeBuilder, events: &[&'static EventDescriptor]) {
    if builder.role.relays() {
        tracing::info!("{}", notices::arithmetic(builder));
    }
    for notice in notices::notices(builder, events) {
        tracing::warn!(setting = notice.subject, cure = notice.cure, "{}", notice.problem);
    }
}

/// A time as it is said: `7 d`, `60 s`, `1.5 s`, `100 ms`.
fn shown(time: Duration) -> String {
    let (seconds, whole) = (time.as_secs(), time.subsec_nanos() == 0);
    match seconds {
        _ if time.is_zero() => "0 s".to_owned(),
        0 if time.subsec_nanos().is_multiple_of(1_000_000) => format!("{} ms", time.as_millis()),
        86_400.. if whole && seconds.is_multiple_of(86_400) => format!("{} d", seconds / 86_400),
        3_600.. if whole && seconds.is_multiple_of(3_600) => format!("{} h", seconds / 3_600),
        _ => format!("{} s", time.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_in_their_largest_unit() {
        let table = [
            (Duration::ZERO, "0 s"),
            (Duration::from_millis(100), "100 ms"),
            (Duration::from_nanos(1), "0.000000001 s"),
            (Duration::from_millis(1_500), "1.5 s"),
            (Duration::from_secs(90), "90 s"),
            (Duration::from_secs(7_200), "2 h"),
            (Duration::from_secs(86_400 * 7), "7 d"),
            (Duration::from_secs(86_401), "86401 s"),
        ];
        for (time, want) in table {
            assert_eq!(shown(time), want);
        }
    }
}
