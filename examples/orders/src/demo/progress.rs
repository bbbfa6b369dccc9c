//! What the demo says while it works: on stderr, so that stdout is the result alone.

use std::fmt::Display;
use std::sync::LazyLock;
use std::time::Instant;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// One line with the time since the first one.
pub(crate) fn say(text: impl Display) {
    eprintln!("demo {:5.1}s  {text}", START.elapsed().as_secs_f64());
}
