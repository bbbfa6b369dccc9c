//! What is up, what is down and why: for `health()`, and for the supervisors that write it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use crate::alert::Alerts;
use crate::telemetry::names;

/// The runtime's state at one moment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Health {
    /// Everything that is needed is up.
    pub ready: bool,
    /// Each part, by name.
    pub components: Vec<ComponentHealth>,
}

/// One part of the runtime.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ComponentHealth {
    /// `database`, `broker publisher`, `consumer inventory`, `loop relay claim`, ..
    pub name: String,
    /// Whether it works.
    pub up: bool,
    /// Whether the runtime is not [`ready`](Health::ready) without it. The `listener` is not needed: it only makes things faster.
    pub needed: bool,
    /// Since when.
    pub since: SystemTime,
    /// Why it is down, or what was wrong the last time.
    pub error: Option<String>,
    /// How often it went down.
    pub failures: u64,
}

impl Health {
    /// One part by its name.
    pub fn component(&self, name: &str) -> Option<&ComponentHealth> {
        self.components.iter().find(|component| component.name == name)
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.ready { "ready" } else { "not ready" })?;
        for component in self.components.iter().filter(|component| !component.up) {
            write!(f, "; {} is down", component.name)?;
            if !component.needed {
                f.write_str(" (not needed)")?;
            }
            if let Some(error) = &component.error {
                write!(f, ": {error}")?;
            }
        }
        Ok(())
    }
}

/// Where the parts write their state.
#[derive(Debug, Default)]
pub(crate) struct Board {
    parts: Mutex<BTreeMap<String, ComponentHealth>>,
    /// What a person has to act on is told there too.
    alerts: Alerts,
}

impl Board {
    /// An empty one.
    pub(crate) fn new(alerts: Alerts) -> Self {
        Self { parts: Mutex::default(), alerts }
    }

    /// Where alerts are raised.
    pub(crate) fn alerts(&self) -> &Alerts {
        &self.alerts
    }

    /// Marks a part as up.
    pub(crate) fn up(&self, name: &str) {
        self.set(name, true, true, None);
    }

    /// Marks a part as down.
    pub(crate) fn down(&self, name: &str, error: impl Into<String>) {
        self.set(name, true, false, Some(error.into()));
    }

    /// Marks a part as up that nobody needs.
    pub(crate) fn hint_up(&self, name: &str) {
        self.set(name, false, true, None);
    }

    /// Marks a part as down that nobody needs.
    pub(crate) fn hint_down(&self, name: &str, error: impl Into<String>) {
        self.set(name, false, false, Some(error.into()));
    }

    fn set(&self, name: &str, needed: bool, up: bool, error: Option<String>) {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let part = parts.entry(name.to_owned()).or_insert_with(|| ComponentHealth {
            name: name.to_owned(),
            up,
            needed,
            since: SystemTime::now(),
            error: None,
            failures: 0,
        });
        if part.up != up {
            part.since = SystemTime::now();
        }
        if !up && (part.up || part.failures == 0) {
            part.failures += 1;
        }
        part.up = up;
        if error.is_some() {
            part.error = error;
        }
        let loops = parts.values().filter(|part| part.name.starts_with("loop "));
        let (expected, alive) = loops.fold((0_u32, 0_u32), |(all, up), part| (all + 1, up + u32::from(part.up)));
        metrics::gauge!(names::LOOPS_EXPECTED).set(expected);
        metrics::gauge!(names::LOOPS_ALIVE).set(alive);
    }

    /// The state of all parts.
    pub(crate) fn health(&self) -> Health {
        let components: Vec<_> = self.parts.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        Health { ready: components.iter().all(|component| component.up || !component.needed), components }
    }
}
