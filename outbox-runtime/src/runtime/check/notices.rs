//! What the settings come to together, and which of them disagree without being wrong: nothing is lost, but somebody may expect otherwise.

use std::time::Duration;

use crate::error::StartProblem;
use crate::event::EventDescriptor;
use crate::runtime::RuntimeBuilder;
use crate::runtime::builder::{CONFIRM_TIMEOUT, SHUTDOWN_TIMEOUT};
use crate::runtime::check::shown;
use crate::runtime::retention::RetentionPlan;

/// How much of the shutdown timeout is kept for closing, at most: as in the engine.
const FOR_CLOSING: Duration = Duration::from_secs(4);
/// How often expired leases are put back, at least, beside four times in a lease: as in the relay.
const SWEEP: Duration = Duration::from_secs(2);

/// How long batches have at a shutdown.
fn patience(builder: &RuntimeBuilder) -> Duration {
    builder.shutdown_timeout.saturating_sub((builder.shutdown_timeout / 4).min(FOR_CLOSING))
}

/// The sums that an operator would have to do by hand (S7). Every setting in it was checked.
pub(super) fn arithmetic(builder: &RuntimeBuilder) -> String {
    let (lease, poll, sweep) = (builder.lease, builder.poll_interval, SWEEP.min(builder.lease / 4));
    let kept = match &builder.retention.plan {
        RetentionPlan::Keep(after) => format!("deleted after {}", shown(*after)),
        RetentionPlan::Delete => "deleted at once".to_owned(),
        RetentionPlan::Archive { table, after } => format!("moved to {table} after {}", shown(*after)),
    };
    format!(
        "the relay's settings come to this: what a killed relay had is taken over within {} (lease {} + sweep {} + poll {}); at most {} events and {} MiB of bodies are in flight; published rows are {kept}; dedup records are kept for {}",
        shown(lease + sweep + poll),
        shown(lease),
        shown(sweep),
        shown(poll),
        builder.batch.saturating_mul(4),
        builder.window_bytes.div_ceil(1024 * 1024),
        shown(builder.dedup_window),
    )
}

/// Each with the sum behind it, and what would agree.
pub(super) fn notices(builder: &RuntimeBuilder, events: &[&'static EventDescriptor]) -> Vec<StartProblem> {
    let mut notices = Vec::new();
    for (name, meant) in &builder.unknown_variables {
        let cure = match meant {
            Some(meant) => format!("did you mean {meant}?"),
            None => {
                "unset it; docs/operations.md lists the variables, and everything else is said on `Runtime::builder()`"
                    .to_owned()
            }
        };
        notices.push(StartProblem::new(
            name,
            "is set, begins with OUTBOX_, and is not a setting: it is not read",
            cure,
        ));
    }
    if !builder.role.relays() {
        return notices;
    }
    let (patience, confirm, window) = (patience(builder), builder.confirm_timeout, builder.dedup_window);
    // The defaults disagree by a few seconds: a shutdown has to end before a usual supervisor's patience does.
    let chosen = builder.shutdown_timeout != SHUTDOWN_TIMEOUT || confirm != CONFIRM_TIMEOUT;
    if chosen && patience < confirm {
        notices.push(StartProblem::new(
            "shutdown_timeout",
            format!(
                "a shutdown of {} leaves batches {}, and their confirms may take {}: one that is cut short is published again",
                shown(builder.shutdown_timeout),
                shown(patience),
                shown(confirm)
            ),
            "lengthen the shutdown timeout or shorten the confirm timeout, unless a few duplicates after a shutdown are fine",
        ));
    }
    let kept = builder.retention.after();
    if kept > window {
        notices.push(StartProblem::new(
            "retention",
            format!(
                "published rows stay for {}, and dedup records for {}: a replay of events older than that is parked by the consumers, not handled",
                shown(kept),
                shown(window)
            ),
            "lengthen `dedup_window` (OUTBOX_DEDUP_WINDOW) of the consumers, or keep rows for a shorter time",
        ));
    }
    for event in events {
        let Some(age) = event.max_age.filter(|age| *age > window) else { continue };
        notices.push(StartProblem::new(
            format!("event {:?}", event.name),
            format!(
                "it may be tried for {} (`max_age`), and dedup records stay for {}: published later than that, it is parked by the consumers, not handled",
                shown(age),
                shown(window)
            ),
            "shorten its `max_age`, or lengthen `dedup_window` (OUTBOX_DEDUP_WINDOW) of the consumers",
        ));
    }
    notices
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{Retention, Role};

    const DAY: Duration = Duration::from_secs(24 * 3600);
    static SLOW: EventDescriptor =
        EventDescriptor::new("slow", "Slow", "m", "f", 1).max_age(Duration::from_secs(31 * 24 * 3600));
    static QUICK: EventDescriptor =
        EventDescriptor::new("quick", "Quick", "m", "f", 1).max_age(Duration::from_secs(3600));

    /// S7, R2.
    #[test]
    fn what_disagrees_is_told_with_the_sum() {
        let s = Duration::from_secs;
        let new = RuntimeBuilder::new;
        let unknown = |mut builder: RuntimeBuilder| {
            builder.unknown_variables =
                vec![("OUTBOX_ROLES".to_owned(), Some("OUTBOX_ROLE")), ("OUTBOX_X".to_owned(), None)];
            builder
        };
        let (quick, slow, both) = ([&QUICK], [&SLOW], [&QUICK, &SLOW]);
        let table: Vec<(RuntimeBuilder, &[&'static EventDescriptor], &[&str])> = vec![
            (new(), &quick, &[]),
            (
                new().shutdown_timeout(s(8)),
                &[],
                &["a shutdown of 8 s leaves batches 6 s, and their confirms may take 30 s"],
            ),
            (new().shutdown_timeout(s(34)), &[], &[]),
            (new().lease(s(60), s(22)), &[], &["leaves batches 21 s, and their confirms may take 22 s"]),
            (new().lease(s(60), s(21)), &[], &[]),
            (new().retention(Retention::keep(DAY * 30)), &[], &[]),
            (new().retention(Retention::keep(DAY * 31)), &[], &["stay for 31 d, and dedup records for 30 d"]),
            (
                new().retention(Retention::archive("t")).dedup_window(DAY),
                &[],
                &["stay for 7 d, and dedup records for 1 d"],
            ),
            (new().retention(Retention::delete()).dedup_window(DAY), &[], &[]),
            (new(), &both, &["event \"slow\": it may be tried for 31 d (`max_age`), and dedup records stay for 30 d"]),
            (new().role(Role::Consume).shutdown_timeout(s(1)), &slow, &[]),
            (unknown(new().role(Role::PublishOnly)), &[], &["OUTBOX_ROLES: is set", "OUTBOX_X: is set"]),
        ];
        for (builder, events, want) in table {
            let told: Vec<String> = notices(&builder, events).iter().map(ToString::to_string).collect();
            assert_eq!(told.len(), want.len(), "{want:?}: {told:?}");
            for (told, want) in told.iter().zip(want) {
                assert!(told.contains(want), "{want:?} is missing in {told:?}");
            }
        }
    }

    #[test]
    fn the_sums_are_right() {
        let s = Duration::from_secs;
        let text = arithmetic(&RuntimeBuilder::new());
        assert!(
            text.contains("within 63 s (lease 60 s + sweep 2 s + poll 1 s); at most 2000 events and 16 MiB"),
            "{text}"
        );
        assert!(text.contains("rows are deleted after 7 d; dedup records are kept for 30 d"), "{text}");
        let short =
            RuntimeBuilder::new().lease(s(2), s(1)).relay_limits(10, 1).retention(Retention::archive("old").after(DAY));
        let text = arithmetic(&short);
        assert!(
            text.contains("within 3.5 s (lease 2 s + sweep 500 ms + poll 1 s); at most 40 events and 1 MiB"),
            "{text}"
        );
        assert!(text.contains("moved to old after 1 d"), "{text}");
    }
}
