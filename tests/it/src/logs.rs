//! What the code under test logs, for assertions such as "no payload, no password".
//!
//! One subscriber per process collects every line. Under nextest a process is a test; under `cargo test` tests share it,
//! so assert on something only this test could have logged (an id, a payload, a password of its own).

use std::io::Write;
use std::sync::{Mutex, OnceLock};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The lines logged since [`Logs::capture`].
#[derive(Debug)]
pub struct Logs {
    from: usize,
}

impl Logs {
    /// Installs the subscriber (once) and remembers where the log is. Level: `RUST_LOG`, else `debug`.
    pub fn capture() -> Self {
        static INSTALLED: OnceLock<()> = OnceLock::new();
        INSTALLED.get_or_init(|| {
            let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("debug"));
            let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(Sink);
            subscriber.init();
        });
        Self { from: LINES.lock().unwrap().len() }
    }

    /// All lines since the capture.
    pub fn lines(&self) -> Vec<String> {
        LINES.lock().unwrap()[self.from..].to_vec()
    }

    /// The lines that contain all of these.
    pub fn with(&self, needles: &[&str]) -> Vec<String> {
        self.lines().into_iter().filter(|line| needles.iter().all(|needle| line.contains(needle))).collect()
    }

    /// Panics when a line contains the secret.
    pub fn assert_absent(&self, secret: &str) {
        let told = self.with(&[secret]);
        assert!(told.is_empty(), "the log tells {secret:?}: {told:#?}");
    }

    /// Panics when no line contains all of these.
    pub fn assert_present(&self, needles: &[&str]) {
        assert!(!self.with(needles).is_empty(), "no line with {needles:?} in: {:#?}", self.lines());
    }
}

#[derive(Debug, Clone, Copy)]
struct Sink;

impl Write for Sink {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        // The formatter hands over one event per call.
        LINES.lock().unwrap().push(String::from_utf8_lossy(line).trim_end().to_owned());
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Sink {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        *self
    }
}
