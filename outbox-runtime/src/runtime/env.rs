//! Configuration from environment variables; every wrong one is reported at once.

use std::time::Duration;

use crate::broker::{Broker, Declare};
use crate::error::{StartError, StartProblem, shown};
use crate::runtime::{Migrations, Role, RuntimeBuilder, retention};

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
    if problems.is_empty() { Ok(builder) } else { Err(StartError::new(problems)) }
}
