//! Exponential backoff with full jitter in its upper half, and the schedule of retries. Pure.

use std::time::Duration;

/// `first`, doubled for each earlier failure, at most `longest`, before jitter.
pub(crate) fn delay(first: Duration, longest: Duration, failures: u32) -> Duration {
    let factor = 2_u32.checked_pow(failures.min(31)).unwrap_or(u32::MAX);
    first.checked_mul(factor).map_or(longest, |delay| delay.min(longest))
}

/// Somewhere in the upper half of `delay`: a crowd that failed together does not come back together.
pub(crate) fn jitter(delay: Duration) -> Duration {
    delay.mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// Delays that grow until [`reset`](Self::reset).
#[derive(Debug)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, failures: 0 }
    }

    /// The next delay, with jitter.
    pub(crate) fn next(&mut self) -> Duration {
        let next = delay(self.first, self.longest, self.failures);
        self.failures = self.failures.saturating_add(1);
        jitter(next)
    }

    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest() {
        let (first, longest) = (Duration::from_secs(1), Duration::from_secs(600));
        let table = [(0, 1), (1, 2), (2, 4), (9, 512), (10, 600), (31, 600), (u32::MAX, 600)];
        for (failures, seconds) in table {
            assert_eq!(delay(first, longest, failures), Duration::from_secs(seconds), "{failures}");
        }
        for _ in 0..100 {
            let jittered = jitter(Duration::from_secs(10));
            assert!((5.0..=10.0).contains(&jittered.as_secs_f64()));
        }
    }
}
