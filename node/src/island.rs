//! The island: one learner of the run, and the seam between training and everything else.
//!
//! The rest of the node knows training only as [`Island`]. Parameters are `f32` and laid out
//! fragment after fragment ([`layout::Layout`]), so that a fragment is one slice and the core's
//! account works on it in place.

mod checkpoint;
mod compute;
pub mod cpu;
pub mod data;
pub mod device;
pub mod exchange;
pub mod host;
pub mod hugging_face;
pub mod layout;
pub mod learner;
pub mod precision;
pub mod sampler;
pub mod settings;
pub mod shape;

use std::path::Path;

use atoll_protocol::id::FragmentId;

/// Something that trains: our own kernels, a device, the simulator's toy, or another process.
///
/// Every method is called between pieces of steps and by one thread, so an implementation needs no
/// locks.
pub trait Island: Send {
    /// Goes on with a step on the next batch of the island's own data, at this learning rate. None
    /// if it paused: after a piece of the work [`Pause`] said that somebody wants to see or change
    /// the parameters. They are still those from before the step, and the next call goes on where
    /// this one stopped, with whatever they are by then.
    ///
    /// An implementation that cannot stop halfway need not ask. On an error the step is given up
    /// and the parameters are those before it.
    fn advance(
        &mut self,
        learning_rate: f32,
        pause: Pause<'_>,
    ) -> Result<Option<Step>, IslandError>;

    /// Trains one step, or the rest of one, in one go.
    fn step(&mut self, learning_rate: f32) -> Result<Step, IslandError> {
        loop {
            if let Some(step) = self.advance(learning_rate, &|| false)? {
                return Ok(step);
            }
        }
    }

    /// Shows one fragment's parameters, in the fragment map's order.
    ///
    /// An island whose parameters live elsewhere fetches them first.
    fn read(
        &mut self,
        fragment: FragmentId,
        look: &mut dyn FnMut(&[f32]),
    ) -> Result<(), IslandError>;

    /// Lends one fragment's parameters to `change`; the next piece of work begins from what it left.
    ///
    /// The moments of the inner optimiser stay as they are.
    fn change(
        &mut self,
        fragment: FragmentId,
        change: &mut dyn FnMut(&mut [f32]),
    ) -> Result<(), IslandError>;

    /// Mean loss in nats per token over the held-out split, with the present parameters.
    fn evaluate(&mut self) -> Result<f64, IslandError>;

    /// The same over a part of that split, always the same one: what a node that trains can afford
    /// every few seconds.
    fn glance(&mut self) -> Result<f64, IslandError> {
        self.evaluate()
    }

    /// Writes everything that a restart needs into the folder `into`, which exists and is empty. A
    /// step that is not done is not part of it.
    fn save(&mut self, into: &Path) -> Result<(), IslandError>;

    /// Goes back to what [`Island::save`] wrote: steps taken afterwards are, bit for bit, those
    /// that would have followed the save. On an error nothing has changed.
    fn restore(&mut self, from: &Path) -> Result<(), IslandError>;
}

/// Asked after each piece of a step, by whichever thread did it: whether to stop there.
pub type Pause<'a> = &'a (dyn Fn() -> bool + Sync);

/// What one step did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Mean loss of the batch in nats per token, before the step.
    pub loss: f32,
    /// Tokens the step learned from.
    pub tokens: u64,
    /// Norm of the gradient before clipping.
    pub gradient_norm: f32,
}

/// Why an island cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum IslandError {
    /// The loss or the gradient is no number any more.
    #[error("training left the numbers at step {step}, with a loss of {loss}")]
    Diverged {
        /// Steps taken before.
        step: u64,
        /// What the loss was.
        loss: f32,
    },
    /// A checkpoint is of another model, torn, or from another version.
    #[error("the checkpoint cannot be used: {0}")]
    Checkpoint(String),
    /// Reading or writing failed.
    #[error("{path}: {source}")]
    File {
        /// Which file.
        path: std::path::PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The device failed or has not enough memory.
    #[error("{0}")]
    Device(String),
    /// The CPU cannot train this model.
    #[error(transparent)]
    Cpu(#[from] cpu::error::CpuError),
    /// The data cannot be used.
    #[error("{0}\nhint: {hint}", hint = .0.hint())]
    Data(#[from] data::DataError),
    /// Only the owner of a custom model knows how it computes.
    #[error("the run's model is custom: this program cannot train it by itself")]
    Custom,
    /// Parameters of another model.
    #[error("{given} parameters for a model that has {wanted}")]
    Parameters {
        /// How many there are.
        given: usize,
        /// How many the model has.
        wanted: usize,
    },
    /// The run has no such fragment.
    #[error("the run has no fragment {0}")]
    NoFragment(FragmentId),
}
