//! What the runtime counts: a recorder of the `metrics` facade that a test can read. One per process, so read counters by a label of your own
//! or as differences.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use metrics::{Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

#[derive(Debug, Default)]
struct Cell(AtomicU64);

impl CounterFn for Cell {
    fn increment(&self, value: u64) {
        self.0.fetch_add(value, Ordering::SeqCst);
    }

    fn absolute(&self, value: u64) {
        self.0.store(value, Ordering::SeqCst);
    }
}

#[derive(Debug, Default)]
struct Level(Mutex<f64>);

impl GaugeFn for Level {
    fn increment(&self, value: f64) {
        *self.0.lock().unwrap() += value;
    }

    fn decrement(&self, value: f64) {
        *self.0.lock().unwrap() -= value;
    }

    fn set(&self, value: f64) {
        *self.0.lock().unwrap() = value;
    }
}

#[derive(Debug, Default)]
struct Book {
    counters: HashMap<String, Arc<Cell>>,
    gauges: HashMap<String, Arc<Level>>,
}

/// The recorder of this process.
#[derive(Debug, Clone)]
pub struct Meter(Arc<Mutex<Book>>);

impl Meter {
    /// Installs it, once.
    pub fn install() -> Self {
        static METER: OnceLock<Meter> = OnceLock::new();
        METER
            .get_or_init(|| {
                let meter = Self(Arc::default());
                metrics::set_global_recorder(meter.clone()).expect("one recorder in this process");
                meter
            })
            .clone()
    }

    /// The sum of all counters of that name whose labels contain `label` (`key=value`; empty for all).
    pub fn counter(&self, name: &str, label: &str) -> u64 {
        let book = self.0.lock().unwrap();
        book.counters
            .iter()
            .filter(|(key, _)| matches(key, name, label))
            .map(|(_, cell)| cell.0.load(Ordering::SeqCst))
            .sum()
    }

    /// The gauge of that name and label.
    pub fn gauge(&self, name: &str, label: &str) -> Option<f64> {
        let book = self.0.lock().unwrap();
        book.gauges.iter().find(|(key, _)| matches(key, name, label)).map(|(_, level)| *level.0.lock().unwrap())
    }
}

fn matches(key: &str, name: &str, label: &str) -> bool {
    key.split_once('{').is_some_and(|(known, labels)| known == name && labels.contains(label))
}

fn text(key: &Key) -> String {
    let labels: Vec<String> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
    format!("{}{{{}}}", key.name(), labels.join(","))
}

impl Recorder for Meter {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let mut book = self.0.lock().unwrap();
        Counter::from_arc(Arc::clone(book.counters.entry(text(key)).or_default()))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        let mut book = self.0.lock().unwrap();
        Gauge::from_arc(Arc::clone(book.gauges.entry(text(key)).or_default()))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
