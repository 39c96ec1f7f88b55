//! The island's own thread: it steps, and does what the driver asked for in between.
//!
//! Nothing here waits for the network or the disk of the node: errands come through a bounded
//! queue, and what cannot be reported at once is kept. What a fragment waits for is done as soon as
//! a piece of a step is: a step of many sequences may take longer than a round's way through the
//! swarm. The rest waits for the end of the step.

mod backlog;
mod checkpoint;
mod nice;
mod pace;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel,
};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use atoll_protocol::genesis::Genesis;
use atoll_protocol::id::{ContentId, FragmentId, Version};
use atoll_protocol::pool::Inline;
use tokio::sync::mpsc::Sender;

use super::exchange::{Exchange, ExchangeError};
use super::{Island, IslandError};
use backlog::Backlog;

pub use checkpoint::{Checkpoint, Fragment};
pub use nice::be_nice;
pub use pace::{Effort, Pace};

/// Something to do between pieces of a step or between steps, in order.
#[derive(Debug)]
pub enum Errand {
    /// Encode what a fragment learned.
    Capture(FragmentId),
    /// Put an outer version under the island's progress.
    Adopt(Box<Adoption>),
    /// Glance at the held-out loss.
    Evaluate,
    /// Write a checkpoint.
    Save {
        /// Into this folder, which exists and is empty.
        folder: PathBuf,
        /// Who waits for it, on a thread that may; told how it went and how long it took.
        reply: SyncSender<Result<Duration, IslandError>>,
    },
}

impl Errand {
    /// The fragment that it is about, if it is about one.
    pub fn fragment(&self) -> Option<FragmentId> {
        match self {
            Self::Capture(fragment) => Some(*fragment),
            Self::Adopt(adoption) => Some(adoption.fragment),
            Self::Evaluate | Self::Save { .. } => None,
        }
    }
}

/// An outer version to adopt, with all that it takes.
#[derive(Debug)]
pub struct Adoption {
    /// Which fragment.
    pub fragment: FragmentId,
    /// The version of `head`.
    pub version: Version,
    /// The parameters of the outer state.
    pub head: Arc<[f32]>,
    /// Own payloads that were captured and are not in that version.
    pub pending: Vec<Arc<[u8]>>,
    /// Own payloads whose content returns to fresh.
    pub reissued: Vec<Arc<[u8]>>,
    /// Captures of this life that the engine knew of when it asked; later ones are pending too.
    pub captures: u64,
}

/// What the island tells the driver. Reports keep their order.
#[derive(Debug)]
pub enum Told {
    /// Steps were taken.
    Stepped {
        /// How many; more than one if the driver was busy or asked for so many at once.
        steps: u32,
        /// Tokens in each.
        tokens: u64,
        /// Milliseconds of one.
        step_ms: u32,
        /// The loss of the last.
        loss: f32,
    },
    /// A fragment was captured.
    Captured {
        /// Which.
        fragment: FragmentId,
        /// The payload.
        payload: Arc<[u8]>,
    },
    /// An outer version is under the island's progress.
    Adopted {
        /// Which fragment.
        fragment: FragmentId,
        /// The version.
        version: Version,
    },
    /// The held-out loss was measured.
    Evaluated {
        /// Nats per token.
        loss: f64,
        /// How long it took.
        took: Duration,
    },
    /// The island cannot go on; it does errands no more.
    Failed(ExchangeError),
}

/// The driver's end of an island's thread.
#[derive(Debug)]
pub struct Host {
    errands: SyncSender<Errand>,
    pace: Arc<Pace>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    /// Starts the thread. The island does not step before [`Pace::go`].
    pub fn start(
        genesis: &Genesis,
        island: Box<dyn Island>,
        accounts: Accounts,
        effort: Effort,
        nice: i32,
        told: Sender<Told>,
    ) -> std::io::Result<Self> {
        let (errands, queue) = sync_channel(ERRANDS_MAX);
        let pace = Arc::new(Pace::new(effort));
        let worker = Worker {
            genesis: genesis.clone(),
            island,
            accounts,
            queue,
            held: None,
            backlog: Backlog::new(told),
            pace: pace.clone(),
        };
        let thread = std::thread::Builder::new().name("island".into()).spawn(move || {
            if let Err(error) = be_nice(nice) {
                tracing::warn!("training does not leave the processor to others: {error}");
            }
            worker.live();
        })?;
        Ok(Self { errands, pace, thread: Some(thread) })
    }

    /// Asks for something; gives it back if the island has too much to do already.
    pub fn ask(&self, errand: Errand) -> Result<(), Errand> {
        self.errands.try_send(errand).map_err(|error| match error {
            TrySendError::Full(errand) | TrySendError::Disconnected(errand) => errand,
        })?;
        self.pace.asked();
        Ok(())
    }

    /// How it steps.
    pub fn pace(&self) -> &Pace {
        &self.pace
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.pace.end();
        // A step of a large model may take long; the process does not wait for it.
        drop(self.thread.take());
    }
}

/// What the island holds of the outer state, and what it captured.
#[derive(Debug)]
pub struct Accounts {
    exchange: Exchange,
    fragments: Vec<Fragment>,
    /// Captures of this life that an adoption may not know of yet, by fragment.
    made: Vec<VecDeque<(u64, Arc<[u8]>)>>,
    counts: Vec<u64>,
}

impl Accounts {
    /// Those of an island whose parameters are the outer state it begins with.
    pub fn new(island: &mut dyn Island, genesis: &Genesis) -> Result<Self, IslandError> {
        let count = genesis.fragment_map().fragments().len();
        let fragments = u16::try_from(count).expect("a fragment's id is 16 bits");
        let exchange = Exchange::new(island, fragments, genesis.codec)?;
        Ok(Self::with(exchange, vec![Fragment::default(); count]))
    }

    fn with(exchange: Exchange, fragments: Vec<Fragment>) -> Self {
        let count = fragments.len();
        Self { exchange, fragments, made: vec![VecDeque::new(); count], counts: vec![0; count] }
    }

    fn capture(
        &mut self,
        island: &mut dyn Island,
        fragment: FragmentId,
    ) -> Result<Arc<[u8]>, ExchangeError> {
        let payload: Arc<[u8]> = self.exchange.capture(island, fragment, &Inline)?.into();
        let index = fragment.index();
        let account = self.exchange.account(fragment).expect("captured just now");
        let last_capture = account.captured().last().copied();
        self.fragments[index] = Fragment { last_capture, steps: 0, fresh: 0 };
        self.made[index].push_back((self.counts[index], payload.clone()));
        self.counts[index] += 1;
        Ok(payload)
    }

    fn adopt(&mut self, island: &mut dyn Island, adoption: &Adoption) -> Result<(), ExchangeError> {
        let made = &mut self.made[adoption.fragment.index()];
        made.retain(|(number, _)| *number >= adoption.captures);
        let unheard = made.iter().map(|(_, payload)| &**payload);
        let pending: Vec<&[u8]> =
            adoption.pending.iter().map(|payload| &**payload).chain(unheard).collect();
        let reissued: Vec<&[u8]> = adoption.reissued.iter().map(|payload| &**payload).collect();
        let (fragment, head) = (adoption.fragment, &adoption.head);
        self.exchange.adopt(island, fragment, head, &pending, &reissued, &Inline)
    }

    /// The captures that each fragment's pending is the sum of.
    fn captured(&self) -> impl Iterator<Item = &[ContentId]> {
        (0..).map_while(|index| self.exchange.account(FragmentId(index))).map(|it| it.captured())
    }
}

struct Worker {
    genesis: Genesis,
    island: Box<dyn Island>,
    accounts: Accounts,
    queue: Receiver<Errand>,
    /// An errand that waits for the end of the step, and with it all that came later.
    held: Option<Errand>,
    backlog: Backlog,
    pace: Arc<Pace>,
}

impl Worker {
    fn live(mut self) {
        while !self.pace.is_over() {
            let outcome = match self.next() {
                Next::Errand(errand) => self.run(errand),
                Next::Step => self.step(),
                Next::Wait => Ok(()),
                Next::End => return,
            };
            if let Err(error) = outcome {
                self.pace.halt();
                self.backlog.tell(Told::Failed(error));
            }
            self.flush();
        }
    }

    /// Errands come before steps; an island that does not step waits for them.
    fn next(&mut self) -> Next {
        if let Some(errand) = self.held.take() {
            return Next::Errand(errand);
        }
        if self.pace.is_going() {
            self.pace.looked();
            return match self.queue.try_recv() {
                Ok(errand) => Next::Errand(errand),
                Err(TryRecvError::Empty) => Next::Step,
                Err(TryRecvError::Disconnected) => Next::End,
            };
        }
        match self.queue.recv_timeout(IDLE) {
            Ok(errand) => Next::Errand(errand),
            Err(RecvTimeoutError::Timeout) => Next::Wait,
            Err(RecvTimeoutError::Disconnected) => Next::End,
        }
    }

    fn step(&mut self) -> Result<(), ExchangeError> {
        let rate = self.genesis.schedule.learning_rate(self.pace.tokens_trained());
        let mut took = Duration::ZERO;
        let step = loop {
            let (began, pace, held) = (Instant::now(), &self.pace, self.held.is_some());
            let done = self.island.advance(rate, &|| !held && pace.is_asked())?;
            took += began.elapsed();
            match done {
                Some(step) => break step,
                None => self.meet()?,
            }
        };
        self.pace.stepped(took);
        for fragment in &mut self.accounts.fragments {
            fragment.steps += 1;
            fragment.fresh += step.tokens;
        }
        // What peers and rounds see of the island's speed is steps with the rest after them.
        let period = took + self.pace.effort().rest(took);
        let step_ms = u32::try_from(period.as_millis()).unwrap_or(u32::MAX).max(1);
        self.backlog.tell(Told::Stepped {
            steps: 1,
            tokens: step.tokens,
            step_ms,
            loss: step.loss,
        });
        if let Some(errand) = self.held.take() {
            self.run(errand)?;
        }
        self.flush();
        self.rest(took);
        Ok(())
    }

    fn flush(&mut self) {
        self.backlog.flush(self.pace.reports_after());
    }

    /// Does what fragments wait for in the middle of a step.
    fn meet(&mut self) -> Result<(), ExchangeError> {
        self.pace.looked();
        while let Ok(errand) = self.queue.try_recv() {
            if errand.fragment().is_none() {
                self.held = Some(errand);
                break;
            }
            self.run(errand)?;
        }
        self.flush();
        Ok(())
    }

    /// Leaves the machine to others for as long as the effort asks for; errands wait no longer
    /// than usual.
    fn rest(&mut self, step: Duration) {
        let until = Instant::now() + self.pace.effort().rest(step);
        while !self.pace.is_over() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            match self.queue.recv_timeout(left.min(IDLE)) {
                Ok(errand) => {
                    if let Err(error) = self.run(errand) {
                        self.pace.halt();
                        self.backlog.tell(Told::Failed(error));
                    }
                    self.flush();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn run(&mut self, errand: Errand) -> Result<(), ExchangeError> {
        let began = Instant::now();
        match errand {
            Errand::Capture(fragment) => {
                let payload = self.accounts.capture(self.island.as_mut(), fragment)?;
                self.backlog.tell(Told::Captured { fragment, payload });
            }
            Errand::Adopt(adoption) => {
                self.accounts.adopt(self.island.as_mut(), &adoption)?;
                let (fragment, version) = (adoption.fragment, adoption.version);
                self.backlog.tell(Told::Adopted { fragment, version });
            }
            Errand::Evaluate => {
                let loss = self.island.glance()?;
                self.backlog.tell(Told::Evaluated { loss, took: began.elapsed() });
            }
            Errand::Save { folder, reply } => {
                let outcome = self.save(&folder).map(|()| began.elapsed());
                // The node may have ended meanwhile.
                let _ = reply.try_send(outcome);
            }
        }
        Ok(())
    }

    fn save(&mut self, folder: &Path) -> Result<(), IslandError> {
        self.island.save(folder)?;
        checkpoint::write(folder, &self.accounts)
    }
}

enum Next {
    Errand(Errand),
    Step,
    Wait,
    End,
}

/// Errands that the island has not begun; more wait with the driver, where newer ones replace
/// them.
const ERRANDS_MAX: usize = 8;
/// How often a waiting island looks whether it may step.
const IDLE: Duration = Duration::from_millis(20);
