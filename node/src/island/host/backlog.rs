//! Reports that the driver had no room for yet.

use std::collections::VecDeque;

use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;

use super::Told;

/// Reports in order; steps are counted together while the driver is busy, so it stays short.
#[derive(Debug)]
pub(super) struct Backlog {
    told: Sender<Told>,
    waiting: VecDeque<Told>,
}

impl Backlog {
    pub(super) fn new(told: Sender<Told>) -> Self {
        Self { told, waiting: VecDeque::new() }
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

    /// Passes on what there is room for, without waiting.
    pub(super) fn flush(&mut self) {
        while let Some(report) = self.waiting.pop_front() {
            if let Err(TrySendError::Full(report)) = self.told.try_send(report) {
                self.waiting.push_front(report);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted_together_while_the_driver_is_busy() {
        let (told, mut heard) = tokio::sync::mpsc::channel(1);
        let mut backlog = Backlog::new(told);
        for loss in [3.0, 2.0, 1.0] {
            backlog.tell(Told::Stepped { steps: 1, tokens: 8, step_ms: 5, loss });
            backlog.flush();
        }
        assert!(matches!(heard.try_recv(), Ok(Told::Stepped { steps: 1, .. })));
        backlog.flush();
        assert!(matches!(
            heard.try_recv(),
            Ok(Told::Stepped { steps: 2, tokens: 8, loss: 1.0, .. })
        ));
    }
}
