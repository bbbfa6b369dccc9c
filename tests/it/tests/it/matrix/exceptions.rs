//! What a combination cannot do, as data, and the table of the guarantees that is this data.

use super::place::BrokerKind;
use super::{budgets, corrupt, failing, garbage, keeping, operating, ordering, producing, routing, stopping};

/// A behaviour that some combinations do not have.
pub struct Exception {
    pub behaviour: &'static str,
    /// `None`: whatever the store.
    pub store: Option<&'static str>,
    /// `None`: whatever the broker.
    pub broker: Option<BrokerKind>,
    pub reason: &'static str,
}

pub const EXCEPTIONS: &[Exception] = &[
    Exception {
        behaviour: "a_namespace_separates_two_systems_on_one_broker",
        store: None,
        broker: Some(BrokerKind::Database),
        reason: "The broker is the database, and the outbox beside it has no namespace: the relay of one system would take the events of the \
                 other and hold them, until its own relay runs. Two systems need two databases, or on PostgreSQL two schemas (`search_path`).",
    },
    Exception {
        behaviour: "a_run_that_ignores_a_failed_statement_commits_nothing",
        store: Some("SQLite"),
        broker: None,
        reason: "SQLite undoes the failed statement alone and goes on with the transaction: what the handler did beside it is committed, once. A \
                 handler that must not go on returns the error.",
    },
    Exception {
        behaviour: "a_handler_that_commits_itself_is_dead_at_once",
        store: Some("SQLite"),
        broker: None,
        reason: "A handler's COMMIT fails on SQLite, and nothing of its run is durable. A handler that goes on and says that it is done is Dead at \
                 once; one that returns an error, or panics, has a failed run that is repeated until the attempts are spent.",
    },
    Exception {
        behaviour: "a_handler_that_rolls_back_itself_is_dead_at_once",
        store: Some("SQLite"),
        broker: None,
        reason: "SQLite rolls back by itself as well (`OR ROLLBACK`, a full disk), which looks the same: it is a failed run, repeated until the \
                 attempts are spent. Nothing of any run is durable.",
    },
];

const STORES: &[&str] = &["PostgreSQL", "SQLite"];
const BROKERS: [BrokerKind; 2] = [BrokerKind::RabbitMq, BrokerKind::Database];

const GROUPS: [&[&str]; 10] = [
    producing::BEHAVIOURS,
    routing::BEHAVIOURS,
    ordering::BEHAVIOURS,
    budgets::BEHAVIOURS,
    corrupt::BEHAVIOURS,
    failing::BEHAVIOURS,
    garbage::BEHAVIOURS,
    stopping::BEHAVIOURS,
    keeping::BEHAVIOURS,
    operating::BEHAVIOURS,
];

fn of(behaviour: &str, store: &str, broker: BrokerKind) -> Option<usize> {
    EXCEPTIONS.iter().position(|exception| {
        exception.behaviour == behaviour
            && exception.store.is_none_or(|name| name == store)
            && exception.broker.is_none_or(|kind| kind == broker)
    })
}

/// Whether a combination does something else.
pub fn excepted(behaviour: &str, store: &str, broker: BrokerKind) -> bool {
    of(behaviour, store, broker).is_some()
}

/// The table and the reasons as they stand in docs/guarantees.md.
fn table() -> String {
    let combinations = || STORES.iter().flat_map(|store| BROKERS.map(|broker| (*store, broker)));
    let mut lines = vec![String::from("| behaviour |"), String::from("| --- |")];
    for (store, broker) in combinations() {
        lines[0] += &format!(" {store} + {} |", broker.name());
        lines[1] += " --- |";
    }
    for behaviour in GROUPS.into_iter().flatten() {
        let mut line = format!("| {} |", behaviour.replace('_', " "));
        for (store, broker) in combinations() {
            line += &match of(behaviour, store, broker) {
                None => " yes |".to_owned(),
                Some(n) => format!(" no ({}) |", n + 1),
            };
        }
        lines.push(line);
    }
    lines.push(String::new());
    lines.extend(EXCEPTIONS.iter().enumerate().map(|(n, exception)| format!("{}. {}", n + 1, exception.reason)));
    lines.join("\n").trim_end().to_owned()
}

/// Whoever changes what a combination can do changes what the guarantees say, and nobody can promise more than the tests show.
#[test]
fn the_table_in_the_guarantees_is_this_data() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guarantees.md");
    let text = std::fs::read_to_string(path).expect("docs/guarantees.md");
    let section = text.split("\n## What each combination can do\n").nth(1).expect("the section of the combinations");
    let section = section.split("\n## ").next().unwrap_or_default();
    let start = section.find("\n| behaviour |").expect("the table") + 1;
    let (is, must) = (section[start..].trim_end(), table());
    assert!(is == must, "docs/guarantees.md has to say:\n\n{must}\n");
    for exception in EXCEPTIONS {
        let known = GROUPS.into_iter().flatten().any(|behaviour| *behaviour == exception.behaviour);
        assert!(known, "no behaviour is called {:?}", exception.behaviour);
    }
}
