//! Where the runtime works, and under which names.

use crate::broker::Broker;
use crate::error::StartProblem;
use crate::event::name;
use crate::runtime::{Role, RuntimeBuilder};

pub(super) fn problems(builder: &RuntimeBuilder) -> Vec<StartProblem> {
    let mut problems = Vec::new();
    let mut problem = |subject: &str, text: String, cure: &str| problems.push(StartProblem::new(subject, text, cure));
    if builder.database.is_none() {
        problem(
            "DATABASE_URL",
            "no database is configured".to_owned(),
            "set DATABASE_URL=postgres://user:password@host:5432/database\nor DATABASE_URL=sqlite://service.db?mode=rwc\nor call `.database(pool)` or `.database_url(url)`",
        );
    }
    if builder.broker.is_none() && builder.role != Role::PublishOnly {
        problem(
            "AMQP_URL",
            "no broker is configured, and none is chosen silently".to_owned(),
            "set AMQP_URL=amqp://user:password@host:5672/%2f\nor set OUTBOX_BROKER=database, and the database carries the messages\nor call `.broker(Broker::RabbitMq(url))` or `.broker(Broker::Database)`",
        );
    }
    if let Some(from) = &builder.moved_from {
        match (from, &builder.broker) {
            (Broker::Database, Some(Broker::Database)) => problem(
                "moved_from",
                "the broker is `database`, and so is the one that was left".to_owned(),
                "leave it off, or configure the broker that the service moved to",
            ),
            (Broker::Database, _) => {}
            (other, _) => problem(
                "moved_from",
                format!("messages that wait in `{}` would not be handled after the move", other.kind()),
                "only `database` can be left: let the queues of the other broker run empty, then say so: UPDATE outbox_settings SET value = 'database' WHERE key = 'broker'",
            ),
        }
    }
    if builder.broker_ca.as_ref().is_some_and(|pem| !pem.contains("-----BEGIN CERTIFICATE-----")) {
        problem(
            "broker_ca",
            "has no certificate in PEM form".to_owned(),
            "give it the text of a file that begins with `-----BEGIN CERTIFICATE-----`",
        );
    }
    if let Some(namespace) = &builder.namespace
        && let Err(wrong) = name::consumer_name(namespace)
    {
        problem(
            "namespace",
            format!("{} {}", crate::error::shown(namespace), wrong.of(namespace)),
            "use letters, digits, `-`, `_` and single dots",
        );
    }
    if let Some(instance) = &builder.instance
        && (name::short_string(instance).is_err() || instance.len() > 100)
    {
        problem(
            "instance",
            format!("{} is empty, longer than 100 bytes, or has control characters", crate::error::shown(instance)),
            "choose a short name",
        );
    }
    problems
}
