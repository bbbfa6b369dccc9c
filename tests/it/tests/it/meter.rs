//! What the runtime counts: a recorder of the `metrics` facade that a test can read. One per process (under nextest a process is a test), so
//! read counters by a label of your own or as differences.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

/// The recorder of this process.
#[derive(Debug, Clone, Default)]
pub struct Meter(Arc<Mutex<HashMap<Key, Arc<AtomicU64>>>>);

impl Meter {
    /// Installs it, once.
    pub fn install() -> Self {
        static METER: OnceLock<Meter> = OnceLock::new();
        METER
            .get_or_init(|| {
                let meter = Self::default();
                metrics::set_global_recorder(meter.clone()).expect("one recorder in this process");
                meter
            })
            .clone()
    }

    /// The sum of all counters of that name with `label` (`key=value`; empty for all).
    pub fn counter(&self, name: &str, label: &str) -> u64 {
        self.values(name, label).into_iter().sum()
    }

    /// The gauge of that name and label; `None` before it was set.
    pub fn gauge(&self, name: &str, label: &str) -> Option<f64> {
        self.values(name, label).into_iter().next().map(f64::from_bits)
    }

    fn values(&self, name: &str, label: &str) -> Vec<u64> {
        let has =
            |key: &Key| label.is_empty() || key.labels().any(|one| format!("{}={}", one.key(), one.value()) == label);
        let values = self.0.lock().unwrap();
        values.iter().filter(|(key, _)| key.name() == name && has(key)).map(|(_, v)| v.load(Ordering::SeqCst)).collect()
    }

    fn of(&self, key: &Key) -> Arc<AtomicU64> {
        Arc::clone(self.0.lock().unwrap().entry(key.clone()).or_default())
    }
}

impl Recorder for Meter {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.of(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.of(key))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
