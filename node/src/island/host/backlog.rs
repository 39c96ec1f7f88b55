//! Reports that the driver had no room for yet, or need not hear of yet.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;

use super::Told;

/// Reports in order; steps are counted together while the driver is busy or waits for more of them,
/// so it stays short.
#[derive(Debug)]
pub(super) struct Backlog {
    told: Sender<Told>,
    waiting: VecDeque<Told>,
    /// When the driver last heard something.
    flushed: Instant,
}

impl Backlog {
    pub(super) fn new(told: Sender<Told>) -> Self {
        Self { told, waiting: VecDeque::new(), flushed: Instant::now() }
    }

    /// Takes a report; [`Backlog::flush`] passes it on.
    pub(super) fn tell(&mut self, report: Told) {
        if let (
            Some(Told::Stepped { steps, tokens, step_ms, loss }),
            Told::Stepped { tokens: more, step_ms: ms, loss: last, .. },
        ) = (self.waiting.back_mut(), &report)
            && tokens == more
        {
            *steps += 1;
            (*step_ms, *loss) = (*ms, *last);
            return;
        }
        self.waiting.push_back(report);
    }

    /// Passes on what there is room for, without waiting. If that is only steps, and fewer than
    /// `steps`, they may become more, but not for long.
    pub(super) fn flush(&mut self, steps: u32) {
        let few = match self.waiting.make_contiguous() {
            [] => true,
            [Told::Stepped { steps: taken, .. }] => *taken < steps,
            _ => false,
        };
        if few && self.flushed.elapsed() < SILENT_MAX {
            return;
        }
        self.flushed = Instant::now();
        while let Some(report) = self.waiting.pop_front() {
            if let Err(TrySendError::Full(report)) = self.told.try_send(report) {
                self.waiting.push_front(report);
                return;
            }
        }
    }
}

/// How long the driver hears nothing of an island that steps.
const SILENT_MAX: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use atoll_protocol::id::FragmentId;

    use super::*;

    #[test]
    fn steps_are_counted_together_while_the_driver_is_busy() {
        let (told, mut heard) = tokio::sync::mpsc::channel(1);
        let mut backlog = Backlog::new(told);
        for loss in [3.0, 2.0, 1.0] {
            backlog.tell(Told::Stepped { steps: 1, tokens: 8, step_ms: 5, loss });
            backlog.flush(1);
        }
        assert!(matches!(heard.try_recv(), Ok(Told::Stepped { steps: 1, .. })));
        backlog.flush(1);
        assert!(matches!(
            heard.try_recv(),
            Ok(Told::Stepped { steps: 2, tokens: 8, loss: 1.0, .. })
        ));
    }

    #[test]
    fn few_steps_wait_for_more_or_for_something_else() {
        let (told, mut heard) = tokio::sync::mpsc::channel(8);
        let mut backlog = Backlog::new(told);
        let fragment = FragmentId(0);
        let step = || Told::Stepped { steps: 1, tokens: 8, step_ms: 5, loss: 1.0 };
        for _ in 0..2 {
            backlog.tell(step());
            backlog.flush(3);
        }
        assert!(heard.try_recv().is_err());
        backlog.tell(step());
        backlog.flush(3);
        assert!(matches!(heard.try_recv(), Ok(Told::Stepped { steps: 3, .. })));
        backlog.tell(step());
        backlog.tell(Told::Adopted { fragment, version: 1 });
        backlog.flush(3);
        assert!(matches!(heard.try_recv(), Ok(Told::Stepped { steps: 1, .. })));
        assert!(matches!(heard.try_recv(), Ok(Told::Adopted { .. })));
        backlog.tell(step());
        backlog.flushed -= SILENT_MAX;
        backlog.flush(3);
        assert!(matches!(heard.try_recv(), Ok(Told::Stepped { steps: 1, .. })));
    }
}
