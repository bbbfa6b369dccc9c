//! Declaring the topology: each entity on a channel of its own, since the broker closes the channel over a difference (T2).

use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::{Connection, ExchangeKind};

use super::{RabbitError, answered};
use crate::broker::topology::{Argument, Queue, Topology};
use crate::broker::{Declare, EntityProblem};

/// Declares everything; one wrong entity stops no other one.
///
/// # Errors
/// Only if the connection is lost half-way; problems of entities are returned.
pub(crate) async fn declare(
    connection: &Connection,
    topology: &Topology,
    mode: Declare,
) -> Result<Vec<EntityProblem>, RabbitError> {
    let mut problems = Vec::new();
    if mode == Declare::Off {
        return Ok(problems);
    }
    let mut note = |result: Result<(), RabbitError>, entity: String| match result {
        Ok(()) => Ok(()),
        Err(error) => match error.reply() {
            Some((code, text)) => {
                problems.push(problem(entity, code, &text, mode));
                Ok(())
            }
            None => Err(error),
        },
    };
    for name in &topology.exchanges {
        note(exchange(connection, name, mode == Declare::Passive).await, format!("exchange {name:?}"))?;
    }
    for queue in &topology.queues {
        note(declare_queue(connection, queue, mode == Declare::Passive).await, format!("queue {:?}", queue.name))?;
    }
    if mode == Declare::On {
        for binding in &topology.bindings {
            let entity =
                format!("binding of queue {:?} to exchange {:?} by {:?}", binding.queue, binding.exchange, binding.key);
            let bound = bind(connection, &binding.exchange, &binding.queue, &binding.key).await;
            note(bound, entity)?;
        }
    }
    Ok(problems)
}

/// Declares one durable topic exchange.
pub(crate) async fn exchange(connection: &Connection, name: &str, passive: bool) -> Result<(), RabbitError> {
    let channel = answered("opening a channel", connection.create_channel()).await?;
    let options = ExchangeDeclareOptions { durable: true, passive, ..ExchangeDeclareOptions::default() };
    let declared = channel.exchange_declare(short(name), ExchangeKind::Topic, options, FieldTable::default());
    answered("declaring an exchange", declared).await?;
    close(channel).await;
    Ok(())
}

async fn declare_queue(connection: &Connection, queue: &Queue, passive: bool) -> Result<(), RabbitError> {
    let channel = answered("opening a channel", connection.create_channel()).await?;
    let options = QueueDeclareOptions { durable: true, passive, ..QueueDeclareOptions::default() };
    let mut arguments = FieldTable::default();
    for (key, value) in &queue.arguments {
        let value = match value {
            Argument::Text(text) => AMQPValue::LongString(LongString::from(text.as_str())),
            Argument::Number(number) => AMQPValue::LongLongInt(*number),
        };
        arguments.insert(ShortString::from(*key), value);
    }
    answered("declaring a queue", channel.queue_declare(short(&queue.name), options, arguments)).await?;
    close(channel).await;
    Ok(())
}

async fn bind(connection: &Connection, exchange: &str, queue: &str, key: &str) -> Result<(), RabbitError> {
    let channel = answered("opening a channel", connection.create_channel()).await?;
    let bound = channel.queue_bind(
        short(queue),
        short(exchange),
        short(key),
        QueueBindOptions::default(),
        FieldTable::default(),
    );
    answered("binding a queue", bound).await?;
    close(channel).await;
    Ok(())
}

/// How many messages a queue has ready.
pub(crate) async fn depth(connection: &Connection, queue: &str) -> Result<u32, RabbitError> {
    let channel = answered("opening a channel", connection.create_channel()).await?;
    let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let queue =
        answered("asking for a queue", channel.queue_declare(short(queue), options, FieldTable::default())).await?;
    close(channel).await;
    Ok(queue.message_count())
}

async fn close(channel: lapin::Channel) {
    let _ = answered("closing a channel", channel.close(200, ShortString::from("done"))).await;
}

/// Names are checked before a runtime starts; the cut only keeps a mistake of ours from being a panic.
fn short(name: &str) -> ShortString {
    ShortString::try_new(name).unwrap_or_default()
}

fn problem(entity: String, code: u16, text: &str, mode: Declare) -> EntityProblem {
    let cure = match code {
        404 if mode == Declare::Passive => "create it, or let the runtime do so with `declare(Declare::On)`",
        404 => "what it depends on is missing; see the other problems",
        403 => "give the user the permissions configure, write and read on it (`rabbitmqctl set_permissions`)",
        406 => {
            "it exists with other arguments: the broker's text names the argument, the wanted and the actual value; delete it when it is empty, or set `declare(Declare::Passive)` to use it as it is"
        }
        405 => "another connection holds it exclusively; close that one or choose another name",
        _ => "see the broker's log",
    };
    EntityProblem { entity, problem: format!("{code} {text}"), cure: cure.to_owned() }
}
