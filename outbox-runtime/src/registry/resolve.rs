//! From what was registered and configured to what runs; every contradiction at once, with both places. Pure.

use std::collections::{BTreeMap, HashMap};

use crate::broker::topology::qualified;
use crate::consumer::plan::{ConsumerPlan, DEFAULT_CONCURRENCY, DEFAULT_TIMEOUT, HandlerPlan, RetryPolicy};
use crate::error::{StartProblem, shown};
use crate::event::name;
use crate::handler::{DatabaseKind, HandlerDescriptor, Requirements, RetrySettings, StateMap};
use crate::registry::Registry;
use crate::registry::settings::OwnedSettings;

/// What the builder says about consumers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    /// Only these, if any are named.
    pub(crate) consumers: Option<Vec<String>>,
    /// These must be there.
    pub(crate) expected: Vec<String>,
    /// Settings by consumer name.
    pub(crate) settings: BTreeMap<String, OwnedSettings>,
    pub(crate) namespace: Option<String>,
    /// Whether this runtime consumes at all.
    pub(crate) consumes: bool,
}

/// The consumers that run, or everything that is wrong.
pub(crate) fn resolve(
    registry: &Registry,
    wanted: &Wanted,
    states: &StateMap,
    database: Option<DatabaseKind>,
) -> Result<Vec<ConsumerPlan>, Vec<StartProblem>> {
    let mut problems = Vec::new();
    events_agree(registry, &mut problems);
    exchanges(registry, wanted, &mut problems);
    if !wanted.consumes {
        return if problems.is_empty() { Ok(Vec::new()) } else { Err(problems) };
    }
    let by_consumer = registry.by_consumer();
    presence(registry, wanted, &by_consumer, &mut problems);
    let mut plans = Vec::new();
    for (consumer, handlers) in by_consumer {
        if wanted.consumers.as_ref().is_some_and(|only| !only.iter().any(|name| name == consumer)) {
            continue;
        }
        for handler in &handlers {
            arguments(handler, states, database, &mut problems);
        }
        plans.push(plan(consumer, &handlers, registry, wanted, &mut problems));
    }
    queues(&plans, wanted, &mut problems);
    if problems.is_empty() { Ok(plans) } else { Err(problems) }
}

/// Two types for one event must agree on where it goes, or one of them never meets it.
fn events_agree(registry: &Registry, problems: &mut Vec<StartProblem>) {
    let mut known: HashMap<&str, &crate::event::EventDescriptor> = HashMap::new();
    for event in &registry.events {
        let first = known.entry(event.name).or_insert(event);
        if first.exchange != event.exchange {
            problems.push(StartProblem::new(
                format!("event {:?}", event.name),
                format!(
                    "is published to {:?} by `{}` ({}:{}) and to {:?} by `{}` ({}:{})",
                    first.exchange,
                    first.rust_type,
                    first.file,
                    first.line,
                    event.exchange,
                    event.rust_type,
                    event.file,
                    event.line
                ),
                "give both types the same `exchange`",
            ));
        }
    }
}

/// An exchange's name is legal on its own; with the namespace in front it may not be.
fn exchanges(registry: &Registry, wanted: &Wanted, problems: &mut Vec<StartProblem>) {
    for event in &registry.events {
        let full = qualified(wanted.namespace.as_deref(), event.exchange);
        if let Err(problem) = name::exchange_name(&full) {
            problems.push(StartProblem::new(
                format!("event {:?}", event.name),
                format!("its exchange {} {} (the namespace counts)", shown(&full), problem.of(&full)),
                "shorten the exchange's name or the namespace",
            ));
        }
    }
}

fn presence(
    registry: &Registry,
    wanted: &Wanted,
    by_consumer: &BTreeMap<&'static str, Vec<&'static HandlerDescriptor>>,
    problems: &mut Vec<StartProblem>,
) {
    problems.extend(registry.nothing());
    let named = wanted.expected.iter().map(|name| (name, "expect_consumers"));
    let only = wanted.consumers.iter().flatten().map(|name| (name, "consumers"));
    let configured = wanted.settings.keys().map(|name| (name, "consumer settings"));
    for (name, setting) in named.chain(only).chain(configured) {
        if !by_consumer.contains_key(name.as_str()) && !registry.handlers.is_empty() {
            let known: Vec<&str> = by_consumer.keys().copied().collect();
            problems.push(StartProblem::new(
                setting,
                format!("consumer {} has no handler in this binary", shown(name)),
                format!(
                    "the consumers here are: {}; is the crate with its handlers linked (`use my_handlers as _;`)?",
                    known.join(", ")
                ),
            ));
        }
    }
    for descriptor in &registry.consumers {
        if !by_consumer.contains_key(descriptor.name) {
            problems.push(StartProblem::new(
                format!("consumer! at {}:{}", descriptor.file, descriptor.line),
                format!("consumer {:?} has no handler in this binary", descriptor.name),
                "correct the name, or link the crate with its handlers",
            ));
        }
    }
}

fn arguments(
    handler: &HandlerDescriptor,
    states: &StateMap,
    database: Option<DatabaseKind>,
    problems: &mut Vec<StartProblem>,
) {
    let subject = || format!("handler `{}` ({})", handler.name, handler.place());
    let mut requirements = Requirements::default();
    (handler.requires)(&mut requirements);
    for missing in requirements.missing(states) {
        problems.push(StartProblem::new(
            subject(),
            format!("takes `State<{missing}>`, and the runtime has no such state"),
            "add `.state(value)` to the runtime's builder",
        ));
    }
    if let (Some(wanted), Some(database)) = (handler.database, database)
        && wanted != database
    {
        problems.push(StartProblem::new(
            subject(),
            format!("takes a connection of {wanted}, and the runtime's database is {database}"),
            "change the argument's type, or the database",
        ));
    }
}

/// Where a value was said.
type Said<T> = Vec<(T, String)>;

/// The one value that was said, or a problem with two places that say different ones.
fn one<T: PartialEq + Clone + std::fmt::Debug>(
    consumer: &str,
    key: &str,
    said: &Said<T>,
    problems: &mut Vec<StartProblem>,
) -> Option<T> {
    let (first, place) = said.first()?;
    if let Some((other, other_place)) = said.iter().find(|(value, _)| value != first) {
        problems.push(StartProblem::new(
            format!("consumer {consumer:?}"),
            format!("`{key}` is {first:?} at {place} and {other:?} at {other_place}"),
            "a consumer has one queue with one setting: say it once, best in `outbox::consumer!`",
        ));
    }
    Some(first.clone())
}

fn plan(
    consumer: &'static str,
    handlers: &[&'static HandlerDescriptor],
    registry: &Registry,
    wanted: &Wanted,
    problems: &mut Vec<StartProblem>,
) -> ConsumerPlan {
    let mut said: Vec<(OwnedSettings, String)> = Vec::new();
    let own: Vec<_> = registry.consumers.iter().filter(|descriptor| descriptor.name == consumer).collect();
    for descriptor in &own {
        said.push((descriptor.settings.into(), format!("{}:{}", descriptor.file, descriptor.line)));
    }
    if let [first, second, ..] = own.as_slice() {
        problems.push(StartProblem::new(
            format!("consumer {consumer:?}"),
            format!("`consumer!` stands at {}:{} and at {}:{}", first.file, first.line, second.file, second.line),
            "keep one of them",
        ));
    }
    if let Some(settings) = wanted.settings.get(consumer) {
        said.push((settings.clone(), "the runtime's configuration".to_owned()));
    }
    let common = said.clone();
    said.extend(handlers.iter().map(|handler| (handler.settings.into(), handler.place())));

    let mut of = |key: &str, value: &dyn Fn(&OwnedSettings) -> Option<u16>| {
        let values: Said<u16> = said.iter().filter_map(|(s, place)| value(s).map(|v| (v, place.clone()))).collect();
        one(consumer, key, &values, problems)
    };
    let concurrency = of("concurrency", &|s| s.concurrency).unwrap_or(DEFAULT_CONCURRENCY).max(1);
    let prefetch = of("prefetch", &|s| s.prefetch);
    let queue: Said<String> =
        said.iter().filter_map(|(s, place)| s.queue.clone().map(|v| (v, place.clone()))).collect();
    let queue = one(consumer, "queue", &queue, problems).unwrap_or_else(|| consumer.to_owned());
    if let Some(prefetch) = prefetch.filter(|prefetch| *prefetch < concurrency) {
        problems.push(StartProblem::new(
            format!("consumer {consumer:?}"),
            format!(
                "`prefetch` is {prefetch} and `concurrency` is {concurrency}: {} places would always be empty",
                concurrency - prefetch
            ),
            "set `prefetch` to at least `concurrency`",
        ));
    }

    let mut by_event: HashMap<&'static str, HandlerPlan> = HashMap::new();
    for handler in handlers {
        let handler_plan = handler_plan(handler, &common);
        if let Some(first) = by_event.insert(handler.event.name, handler_plan) {
            let first = first.descriptor;
            problems.push(StartProblem::new(
                format!("consumer {consumer:?}"),
                format!(
                    "event {:?} has two handlers: `{}` ({}) and `{}` ({})",
                    handler.event.name, first.name, first.place(), handler.name, handler.place()
                ),
                "an event has one handler in a consumer: call one from the other, or give one of them a consumer of its own",
            ));
        }
    }
    ConsumerPlan {
        name: consumer.to_owned(),
        queue,
        concurrency,
        // One delivery waits for each that is handled.
        prefetch: prefetch.unwrap_or_else(|| concurrency.saturating_mul(2)),
        handlers: by_event,
    }
}

/// A handler's own word first, then the consumer's, then the default.
fn handler_plan(handler: &'static HandlerDescriptor, common: &[(OwnedSettings, String)]) -> HandlerPlan {
    let own = handler.settings;
    let default = RetryPolicy::default();
    let retry = |value: &dyn Fn(&RetrySettings) -> Option<u32>| {
        value(&own.retry).or_else(|| common.iter().find_map(|(settings, _)| value(&settings.retry)))
    };
    let (first, longest) = own
        .retry
        .delays
        .or_else(|| common.iter().find_map(|(settings, _)| settings.retry.delays))
        .unwrap_or((default.first, default.longest));
    let max_attempts = retry(&|r| r.max_attempts).unwrap_or(default.max_attempts).max(1);
    HandlerPlan {
        descriptor: handler,
        timeout: own
            .timeout
            .or_else(|| common.iter().find_map(|(settings, _)| settings.timeout))
            .unwrap_or(DEFAULT_TIMEOUT),
        retry: RetryPolicy {
            immediate: retry(&|r| r.immediate).unwrap_or(default.immediate.min(max_attempts - 1)),
            first,
            longest,
            max_attempts,
        },
    }
}

fn queues(plans: &[ConsumerPlan], wanted: &Wanted, problems: &mut Vec<StartProblem>) {
    let mut known: HashMap<&str, &str> = HashMap::new();
    for plan in plans {
        let full = qualified(wanted.namespace.as_deref(), &plan.queue);
        if let Err(problem) = name::queue_name(&full) {
            problems.push(StartProblem::new(
                format!("consumer {:?}", plan.name),
                format!(
                    "its queue {} {} (namespace and the suffix `.unreadable` count)",
                    shown(&full),
                    problem.of(&full)
                ),
                "shorten the queue's name or the namespace",
            ));
        }
        if let Some(other) = known.insert(&plan.queue, &plan.name) {
            problems.push(StartProblem::new(
                format!("consumers {other:?} and {:?}", plan.name),
                format!("share the queue {:?}: each would get a part of the other's events", plan.queue),
                "give each consumer a queue of its own",
            ));
        }
    }
}
