//! Waiting for a condition with a deadline, never for luck.

use std::time::{Duration, Instant};

/// Looks every few milliseconds until there is something, and fails with the last look's words
/// when `timeout` is over.
pub(crate) fn wait_for<T>(
    what: &str,
    timeout: Duration,
    look: impl FnMut() -> Result<T, String>,
) -> T {
    wait_every(EVERY, what, timeout, look)
}

/// [`wait_for`], looking every so often.
pub(crate) fn wait_every<T>(
    every: Duration,
    what: &str,
    timeout: Duration,
    mut look: impl FnMut() -> Result<T, String>,
) -> T {
    let deadline = Instant::now() + timeout;
    loop {
        match look() {
            Ok(found) => return found,
            Err(last) if Instant::now() >= deadline => {
                panic!("waited {} s for {what}; last: {last}", timeout.as_secs_f32())
            }
            Err(_) => std::thread::sleep(every),
        }
    }
}

const EVERY: Duration = Duration::from_millis(20);
