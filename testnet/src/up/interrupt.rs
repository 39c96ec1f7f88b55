//! Ctrl-C and its relatives, as something to look at now and then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::error::UpError;

/// Whether somebody wants this to stop. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Hears SIGINT, SIGTERM and SIGHUP from now on.
    pub(crate) fn listen() -> Self {
        let interrupt = Self::default();
        let heard = interrupt.clone();
        // One handler can be set in a process; a second swarm in it is not interrupted by it.
        let _ = ctrlc::set_handler(move || heard.set());
        interrupt
    }

    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// The error that matters: what fails after somebody wanted this to stop fails because of it.
    pub(super) fn explain(&self, error: UpError) -> UpError {
        self.check().err().unwrap_or(error)
    }

    pub(crate) fn check(&self) -> Result<(), UpError> {
        if self.0.load(Ordering::Relaxed) { Err(UpError::Interrupted) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_after_an_interrupt_is_the_interrupt() {
        let interrupt = Interrupt::default();
        let error = || UpError::Links("cut".into());
        assert!(matches!(interrupt.explain(error()), UpError::Links(_)));
        interrupt.set();
        assert!(matches!(interrupt.explain(error()), UpError::Interrupted));
    }
}
