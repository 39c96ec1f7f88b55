//! Errands while a step is under way.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use atoll_protocol::genesis::{Init, TensorKind, TensorSpec};
use tokio::sync::mpsc::{Receiver as Reports, channel};

use super::*;
use crate::island::{Pause, Step};

/// An island whose pieces take as long as the test wants.
struct Pieces {
    parameters: Vec<f32>,
    begun: SyncSender<()>,
    go: Receiver<()>,
    left: u32,
}

impl Island for Pieces {
    fn advance(&mut self, _: f32, pause: Pause<'_>) -> Result<Option<Step>, IslandError> {
        loop {
            // The test has ended if nobody listens.
            let _ = self.begun.send(());
            let _ = self.go.recv();
            self.left -= 1;
            if self.left == 0 {
                self.left = PIECES;
                self.parameters.iter_mut().for_each(|it| *it += 1.0);
                return Ok(Some(Step { loss: 1.0, tokens: 8, gradient_norm: 1.0 }));
            }
            if pause() {
                return Ok(None);
            }
        }
    }

    fn read(&mut self, _: FragmentId, look: &mut dyn FnMut(&[f32])) -> Result<(), IslandError> {
        look(&self.parameters);
        Ok(())
    }

    fn change(
        &mut self,
        _: FragmentId,
        change: &mut dyn FnMut(&mut [f32]),
    ) -> Result<(), IslandError> {
        change(&mut self.parameters);
        Ok(())
    }

    fn evaluate(&mut self) -> Result<f64, IslandError> {
        Ok(f64::from(self.parameters[0]))
    }

    fn save(&mut self, _: &Path) -> Result<(), IslandError> {
        Ok(())
    }

    fn restore(&mut self, _: &Path) -> Result<(), IslandError> {
        Ok(())
    }
}

/// A host whose island has begun its first piece.
struct Bench {
    host: Host,
    told: Reports<Told>,
    begun: Receiver<()>,
    go: SyncSender<()>,
}

impl Bench {
    fn new() -> Self {
        let tensor = TensorSpec::new("weight", &[64, 64], TensorKind::Matrix, Init::Zeros);
        let mut genesis = Genesis::custom("host", vec![tensor]);
        genesis.fragments = 1;
        let ((begun_in, begun), (go, go_out)) = (sync_channel(0), sync_channel(0));
        let parameters = vec![0.0; 64 * 64];
        let mut island = Pieces { parameters, begun: begun_in, go: go_out, left: PIECES };
        let accounts = Accounts::new(&mut island, &genesis).unwrap();
        let (told_in, told) = channel(16);
        let host =
            Host::start(&genesis, Box::new(island), accounts, Effort::Full, 0, told_in).unwrap();
        host.pace().go();
        Self { host, told, begun, go }
    }

    /// Lets the island end its piece; it has begun the next when this returns.
    fn piece(&self) {
        self.go.send(()).unwrap();
        self.begun.recv().unwrap();
    }

    fn told(&mut self) -> Vec<String> {
        let name = |told| match told {
            Told::Stepped { steps, .. } => format!("stepped {steps}"),
            Told::Captured { .. } => "captured".into(),
            Told::Adopted { version, .. } => format!("adopted {version}"),
            Told::Evaluated { loss, .. } => format!("evaluated {loss}"),
            Told::Failed(error) => error.to_string(),
        };
        std::iter::from_fn(|| self.told.try_recv().ok()).map(name).collect()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.host.pace().end();
    }
}

#[test]
fn what_a_fragment_waits_for_is_done_within_the_step() {
    let mut bench = Bench::new();
    bench.begun.recv().unwrap();
    bench.piece();
    let fragment = FragmentId(0);
    bench.host.ask(Errand::Capture(fragment)).unwrap();
    let head = vec![0.5; 64 * 64].into();
    let (pending, reissued) = (Vec::new(), Vec::new());
    let adoption = Adoption { fragment, version: 3, head, pending, reissued, captures: 0 };
    bench.host.ask(Errand::Adopt(Box::new(adoption))).unwrap();
    assert_eq!(bench.told(), [""; 0]);
    bench.piece();
    assert_eq!(bench.told(), ["captured", "adopted 3"]);
    bench.piece();
    bench.piece();
    assert_eq!(bench.told(), ["stepped 1"]);
}

#[test]
fn other_errands_wait_for_the_end_of_the_step_and_keep_their_order() {
    let mut bench = Bench::new();
    bench.begun.recv().unwrap();
    bench.host.ask(Errand::Evaluate).unwrap();
    bench.host.ask(Errand::Capture(FragmentId(0))).unwrap();
    for _ in 1..PIECES {
        bench.piece();
        assert_eq!(bench.told(), [""; 0]);
    }
    bench.piece();
    assert_eq!(bench.told(), ["stepped 1", "evaluated 1", "captured"]);
}

/// Pieces of a step.
const PIECES: u32 = 4;
