//! Configuration from environment variables; every wrong one is reported at once.

use std::time::Duration;

use crate::broker::{Broker, Declare};
use crate::error::{StartError, StartProblem, shown};
use crate::runtime::{Migrations, Role, RuntimeBuilder, near, retention};

/// Every variable that is read and begins with `PREFIX`.
const KNOWN: [&str; 14] = [
    "OUTBOX_LISTEN_URL",
    "OUTBOX_BROKER",
    "OUTBOX_BROKER_MOVED_FROM",
    "OUTBOX_AMQP_CA_FILE",
    "OUTBOX_ROLE",
    "OUTBOX_NAMESPACE",
    "OUTBOX_CONSUMERS",
    "OUTBOX_MIGRATIONS",
    "OUTBOX_DECLARE",
    "OUTBOX_FAIL_FAST",
    "OUTBOX_INSTANCE",
    "OUTBOX_SHUTDOWN_SECONDS",
    "OUTBOX_RETENTION",
    "OUTBOX_DEDUP_WINDOW",
];
const PREFIX: &str = "OUTBOX_";

/// Variables that look like settings and are none: a misspelt one would be a default that nobody wanted. Each with the setting that may be meant.
pub(super) fn unknown(names: impl Iterator<Item = String>) -> Vec<(String, Option<&'static str>)> {
    let is_unknown = |name: &String| {
        name.starts_with(PREFIX) && !name.starts_with("OUTBOX_TEST_") && !KNOWN.contains(&name.as_str())
    };
    let mut unknown: Vec<_> = names
        .filter(is_unknown)
        .map(|name| {
            let near = near::nearest(&name[PREFIX.len()..], KNOWN.iter().map(|known| &known[PREFIX.len()..]));
            let meant = near.and_then(|near| KNOWN.into_iter().find(|known| known.strip_prefix(PREFIX) == Some(near)));
            (name, meant)
        })
        .collect();
    unknown.sort();
    unknown
}

/// Reads what is set, through `get`, into the builder.
pub(super) fn read(
    mut builder: RuntimeBuilder,
    get: &dyn Fn(&str) -> Option<Result<String, ()>>,
) -> Result<RuntimeBuilder, StartError> {
    let mut problems = Vec::new();
    let mut text = |name: &str| match get(name) {
        Some(Ok(value)) if value.trim().is_empty() => None,
        Some(Ok(value)) => Some(value.trim().to_owned()),
        Some(Err(())) => {
            problems.push(StartProblem::new(name, "is not valid UTF-8", "set it to text"));
            None
        }
        None => None,
    };
    let database = text("DATABASE_URL");
    let listen = text("OUTBOX_LISTEN_URL");
    let amqp = text("AMQP_URL");
    let broker = text("OUTBOX_BROKER");
    let moved_from = text("OUTBOX_BROKER_MOVED_FROM");
    let ca_file = text("OUTBOX_AMQP_CA_FILE");
    let role = text("OUTBOX_ROLE");
    let namespace = text("OUTBOX_NAMESPACE");
    let consumers = text("OUTBOX_CONSUMERS");
    let migrations = text("OUTBOX_MIGRATIONS");
    let declare = text("OUTBOX_DECLARE");
    let fail_fast = text("OUTBOX_FAIL_FAST");
    let instance = text("OUTBOX_INSTANCE");
    let shutdown = text("OUTBOX_SHUTDOWN_SECONDS");
    let kept = text("OUTBOX_RETENTION");
    let window = text("OUTBOX_DEDUP_WINDOW");

    if let Some(url) = database {
        builder = builder.database_url(url);
    }
    if let Some(url) = listen {
        builder = builder.listen_url(url);
    }
    match (amqp, broker.as_deref()) {
        (Some(url), None | Some("rabbitmq")) => builder = builder.broker(Broker::RabbitMq(url)),
        (Some(_), Some(other)) => problems.push(StartProblem::new(
            "AMQP_URL and OUTBOX_BROKER",
            format!("both are set, and OUTBOX_BROKER is {}", shown(other)),
            "set exactly one of them",
        )),
        (None, Some("rabbitmq")) => problems.push(StartProblem::new(
            "OUTBOX_BROKER",
            "is `rabbitmq`, and AMQP_URL is not set",
            "set AMQP_URL=amqp://user:password@host:5672/%2f",
        )),
        (None, Some("database")) => builder = builder.broker(Broker::Database),
        (None, Some(other)) => problems.push(StartProblem::new(
            "OUTBOX_BROKER",
            format!("is {}", shown(other)),
            "set it to `database`, or unset it and set AMQP_URL=amqp://user:password@host:5672/%2f",
        )),
        (None, None) => {}
    }
    match moved_from.as_deref() {
        Some("database") => builder = builder.moved_from(Broker::Database),
        Some(other) => problems.push(StartProblem::new(
            "OUTBOX_BROKER_MOVED_FROM",
            format!("is {}", shown(other)),
            "set it to `database`, the only broker that a running system can leave, or unset it",
        )),
        None => {}
    }
    if let Some(path) = ca_file {
        match std::fs::read_to_string(&path) {
            Ok(pem) => builder = builder.broker_ca(pem),
            Err(error) => problems.push(StartProblem::new(
                "OUTBOX_AMQP_CA_FILE",
                format!("{} cannot be read: {error}", shown(&path)),
                "set it to the path of a file with certificates in PEM form",
            )),
        }
    }
    let mut one_of = |name: &str, value: Option<String>, values: &[&str]| {
        let value = value?.to_ascii_lowercase();
        let found = values.iter().position(|known| *known == value);
        if found.is_none() {
            problems.push(StartProblem::new(
                name,
                format!("is {}", shown(&value)),
                format!("set it to one of: {}", values.join(", ")),
            ));
        }
        found
    };
    if let Some(index) = one_of("OUTBOX_ROLE", role, &["all", "relay", "consume", "publish-only"]) {
        builder = builder.role([Role::All, Role::Relay, Role::Consume, Role::PublishOnly][index]);
    }
    if let Some(index) = one_of("OUTBOX_MIGRATIONS", migrations, &["run", "check", "off"]) {
        builder = builder.migrations([Migrations::Run, Migrations::Check, Migrations::Off][index]);
    }
    if let Some(index) = one_of("OUTBOX_DECLARE", declare, &["on", "passive", "off"]) {
        builder = builder.declare([Declare::On, Declare::Passive, Declare::Off][index]);
    }
    if let Some(index) = one_of("OUTBOX_FAIL_FAST", fail_fast, &["0", "1", "false", "true"]) {
        builder = builder.fail_fast(index % 2 == 1);
    }
    if let Some(namespace) = namespace {
        builder = builder.namespace(namespace);
    }
    if let Some(instance) = instance {
        builder = builder.instance(instance);
    }
    if let Some(consumers) = consumers {
        builder = builder.consumers(consumers.split(',').map(str::trim).filter(|name| !name.is_empty()));
    }
    if let Some(seconds) = shutdown {
        match seconds.parse::<u32>() {
            Ok(seconds) => builder = builder.shutdown_timeout(Duration::from_secs(u64::from(seconds))),
            Err(_) => problems.push(StartProblem::new(
                "OUTBOX_SHUTDOWN_SECONDS",
                format!("is {}", shown(&seconds)),
                "set it to a whole number of seconds",
            )),
        }
    }
    match kept.as_deref().map(retention::parse) {
        Some(Ok(retention)) => builder = builder.retention(retention),
        Some(Err(wrong)) => problems.push(StartProblem::new("OUTBOX_RETENTION", wrong, retention::FORM)),
        None => {}
    }
    match window.as_deref().map(retention::duration) {
        Some(Ok(window)) => builder = builder.dedup_window(window),
        Some(Err(wrong)) => {
            let cure = "set it to a whole number with a unit (s, m, h, d): 30d";
            problems.push(StartProblem::new("OUTBOX_DEDUP_WINDOW", wrong, cure));
        }
        None => {}
    }
    if problems.is_empty() { Ok(builder) } else { Err(StartError::new(problems)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_of(set: &[(&str, &str)]) -> Result<RuntimeBuilder, StartError> {
        read(RuntimeBuilder::new(), &|name| {
            set.iter().find(|(known, _)| *known == name).map(|(_, value)| Ok((*value).to_owned()))
        })
    }

    #[test]
    fn every_wrong_variable_is_told_at_once() {
        let wrong = [
            ("AMQP_URL", "amqp://h"),
            ("OUTBOX_BROKER", "database"),
            ("OUTBOX_ROLE", "both"),
            ("OUTBOX_RETENTION", "keep:7"),
            ("OUTBOX_DEDUP_WINDOW", "a month"),
            ("OUTBOX_SHUTDOWN_SECONDS", "soon"),
        ];
        let error = read_of(&wrong).expect_err("wrong");
        let subjects: Vec<&str> = error.problems().iter().map(|problem| problem.subject.as_str()).collect();
        for (name, _) in &wrong[1..] {
            assert!(subjects.iter().any(|subject| subject.contains(name)), "{name} is missing in {subjects:?}");
        }
        assert_eq!(subjects.len(), wrong.len() - 1);
        let read = read_of(&[("OUTBOX_DEDUP_WINDOW", "36h"), ("OUTBOX_SHUTDOWN_SECONDS", "9")]).unwrap();
        assert_eq!((read.dedup_window.as_secs(), read.shutdown_timeout.as_secs()), (36 * 3600, 9));
    }

    /// What is read is known, or it would be warned of.
    #[test]
    fn what_is_read_is_known() {
        let asked = std::cell::RefCell::new(Vec::new());
        let _ = read(RuntimeBuilder::new(), &|name| {
            asked.borrow_mut().push(name.to_owned());
            None
        });
        let mut asked = asked.into_inner();
        asked.retain(|name| name.starts_with(PREFIX));
        asked.sort();
        let mut known = KNOWN;
        known.sort_unstable();
        assert_eq!(asked, known);
    }

    #[test]
    fn a_misspelt_variable_is_told_with_what_may_be_meant() {
        let set = ["OUTBOX_RETENSION", "OUTBOX_ROLES", "OUTBOX_COLOUR", "OUTBOX_ROLE", "OUTBOX_TEST_AMQP", "PATH"];
        let unknown = unknown(set.into_iter().map(str::to_owned));
        let unknown: Vec<_> = unknown.iter().map(|(name, meant)| (name.as_str(), *meant)).collect();
        let want = [
            ("OUTBOX_COLOUR", None),
            ("OUTBOX_RETENSION", Some("OUTBOX_RETENTION")),
            ("OUTBOX_ROLES", Some("OUTBOX_ROLE")),
        ];
        assert_eq!(unknown, want);
    }
}
