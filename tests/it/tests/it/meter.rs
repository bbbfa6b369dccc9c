//! A recorder of the `metrics` facade that tests can read. One per process: under nextest a process is a test.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

type Values = Arc<Mutex<HashMap<Key, Arc<AtomicU64>>>>;

#[derive(Debug, Clone, Default)]
pub struct Meter(Values);

impl Meter {
    /// The process's meter, installed at the first call.
    pub fn install() -> Self {
        static METER: OnceLock<Meter> = OnceLock::new();
        METER
            .get_or_init(|| {
                let meter = Self::default();
                metrics::set_global_recorder(meter.clone()).expect("no other recorder");
                meter
            })
            .clone()
    }

    /// A counter, over all labels.
    pub fn count(&self, name: &str) -> u64 {
        self.values(name).into_iter().sum()
    }

    /// A gauge; `None` before it was set.
    pub fn gauge(&self, name: &str) -> Option<f64> {
        self.values(name).into_iter().next().map(f64::from_bits)
    }

    fn values(&self, name: &str) -> Vec<u64> {
        let values = self.0.lock().unwrap();
        values.iter().filter(|(key, _)| key.name() == name).map(|(_, value)| value.load(Ordering::SeqCst)).collect()
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
