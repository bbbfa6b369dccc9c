//! The settings as they were written.

use std::time::Duration;

use crate::common::spanned::Sp;
use crate::common::text::Text;

/// Everything that a consumer can be told.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) queue: Option<Sp<Text>>,
    pub(crate) concurrency: Option<Sp<u32>>,
    pub(crate) prefetch: Option<Sp<u32>>,
    pub(crate) timeout: Option<Sp<Duration>>,
    pub(crate) retry: Retry,
}

/// `retry(..)`
#[derive(Default)]
pub(crate) struct Retry {
    pub(crate) immediate: Option<Sp<u32>>,
    pub(crate) delays: Option<Sp<(Duration, Duration)>>,
    pub(crate) max_attempts: Option<Sp<u32>>,
}
