//! Times and sizes of the relay that contradict each other, or cannot be worked with.

use std::time::Duration;

use crate::error::StartProblem;
use crate::outbox::ArchiveTable;
use crate::runtime::RuntimeBuilder;
use crate::runtime::check::shown;
use crate::runtime::retention::RetentionPlan;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Beyond it the arithmetic of clocks ends, the database's as well as ours.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

pub(super) fn problems(builder: &RuntimeBuilder) -> Vec<StartProblem> {
    let mut problems = Vec::new();
    let mut problem = |subject: &str, text: String, cure: &str| problems.push(StartProblem::new(subject, text, cure));
    let (lease, confirm, poll) = (builder.lease, builder.confirm_timeout, builder.poll_interval);
    if confirm >= lease {
        problem(
            "lease",
            format!(
                "the confirm timeout ({confirm:?}) is not shorter than the lease ({lease:?}): another relay would publish the same events"
            ),
            "make the lease at least twice the confirm timeout",
        );
    }
    if lease < Duration::from_secs(1) || lease > DAY || confirm.is_zero() {
        problem(
            "lease",
            format!("a lease of {} with a confirm timeout of {} cannot be worked with", shown(lease), shown(confirm)),
            "use a lease of 1 s to a day (what a killed relay had waits for it), and a confirm timeout of more than 0",
        );
    }
    if poll < Duration::from_millis(1) {
        problem("poll_interval", format!("{} is no pause at all", shown(poll)), "use at least a few milliseconds");
    } else if poll > lease && lease >= Duration::from_secs(1) {
        problem(
            "poll_interval",
            format!(
                "{} is longer than the lease ({}): what a killed relay had would be taken over after {} instead of {}",
                shown(poll),
                shown(lease),
                shown(lease.saturating_add(poll)),
                shown(lease)
            ),
            "make the poll interval at most as long as the lease; seconds at most are usual",
        );
    }
    if builder.batch == 0 || builder.batch > 10_000 || builder.window_bytes == 0 {
        problem(
            "relay_limits",
            format!("{} rows, {} bytes", builder.batch, builder.window_bytes),
            "use 1 to 10,000 rows and more than 0 bytes",
        );
    }
    if builder.shutdown_timeout > DAY {
        problem(
            "shutdown_timeout",
            format!("{} is longer than a day", shown(builder.shutdown_timeout)),
            "use less than what sends the signal waits before it sends a harder one (30 s with Kubernetes, 10 s with Docker)",
        );
    }
    if let RetentionPlan::Archive { table, .. } = &builder.retention.plan
        && let Err(wrong) = ArchiveTable::parse(table)
    {
        problem(
            "retention",
            format!("the archive's name {wrong}"),
            "name a table of your own for it, such as `published_events`",
        );
    }
    if builder.retention.after() > FOR_EVER {
        problem(
            "retention",
            "the time that published rows stay is longer than 100 years".to_owned(),
            "use 100 years for ever; `Retention::archive` keeps them apart from the outbox",
        );
    }
    if builder.dedup_window < Duration::from_secs(3600) {
        problem(
            "dedup_window",
            format!("{:?} is shorter than an hour: a redelivery after it would be parked", builder.dedup_window),
            "use days: at least as long as an event may wait in the outbox and in its queue",
        );
    }
    if builder.dedup_window > FOR_EVER {
        problem("dedup_window", "is longer than 100 years".to_owned(), "use 100 years for ever");
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Retention;

    /// R2, S7: each contradiction is told once, with its arithmetic.
    #[test]
    fn contradictions_are_told_with_their_arithmetic() {
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        let new = RuntimeBuilder::new;
        let table: Vec<(RuntimeBuilder, &[&str])> = vec![
            (new(), &[]),
            (new().lease(s(1), ms(999)), &[]),
            (new().lease(DAY, s(30)).poll_interval(DAY), &[]),
            (new().lease(s(10), s(10)), &["the confirm timeout (10s) is not shorter than the lease (10s)"]),
            (new().lease(ms(999), ms(1)), &["a lease of 999 ms with a confirm timeout of 1 ms"]),
            (new().lease(DAY * 2, s(30)), &["a lease of 2 d"]),
            (new().lease(Duration::MAX, s(30)), &["cannot be worked with"]),
            (new().lease(s(60), Duration::ZERO), &["a confirm timeout of 0 s"]),
            (new().lease(ms(500), ms(500)), &["is not shorter", "a lease of 500 ms"]),
            (new().poll_interval(Duration::ZERO), &["is no pause"]),
            (new().poll_interval(Duration::from_nanos(999_999)), &["is no pause"]),
            (new().poll_interval(ms(1)), &[]),
            (new().poll_interval(s(60)), &[]),
            (
                new().poll_interval(s(61)),
                &["61 s is longer than the lease (60 s): what a killed relay had would be taken over after 121 s"],
            ),
            (new().poll_interval(Duration::MAX), &["longer than the lease"]),
            (new().relay_limits(0, 1), &["0 rows, 1 bytes"]),
            (new().relay_limits(10_001, 1), &["10001 rows"]),
            (new().relay_limits(1, 0), &["1 rows, 0 bytes"]),
            (new().relay_limits(10_000, usize::MAX), &[]),
            (new().shutdown_timeout(Duration::ZERO), &[]),
            (new().shutdown_timeout(DAY), &[]),
            (new().shutdown_timeout(Duration::MAX), &["is longer than a day"]),
            (new().retention(Retention::keep(FOR_EVER)), &[]),
            (new().retention(Retention::keep(Duration::MAX)), &["longer than 100 years"]),
            (
                new().retention(Retention::archive("outbox_messages").after(Duration::MAX)),
                &["the archive's name", "longer than 100 years"],
            ),
            (new().dedup_window(s(3_599)), &["shorter than an hour"]),
            (new().dedup_window(s(3_600)), &[]),
            (new().dedup_window(Duration::MAX), &["longer than 100 years"]),
        ];
        for (builder, want) in table {
            let problems = problems(&builder);
            let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
            assert_eq!(told.len(), want.len(), "{want:?}: {told:?}");
            for (told, want) in told.iter().zip(want) {
                assert!(told.contains(want), "{want:?} is missing in {told:?}");
            }
            assert!(problems.iter().all(|problem| !problem.cure.is_empty()));
        }
    }
}
