//! One fragment's data plane: its fold, its head, and the work on it, one job after another.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Instant;

use atoll_protocol::crypto::content_id;
use atoll_protocol::engine::Input;
use atoll_protocol::fault::Fault;
use atoll_protocol::fragment::Fragment;
use atoll_protocol::genesis::Genesis;
use atoll_protocol::id::{ContentId, FragmentId, Version};
use atoll_protocol::outer::{self, Budget, Cut, Fold, FoldError, OuterState};
use atoll_protocol::pool::Inline;
use tokio::sync::mpsc;

use super::saving::{Placed, Saved};
use crate::store::{Store, StoreError};

/// One fragment's data plane.
#[derive(Debug)]
pub(super) struct Part {
    fragment: Fragment,
    /// Away while a job works on it.
    fold: Option<Box<Fold>>,
    head: Arc<[f32]>,
    /// The newest bases, which are on disk.
    bases: VecDeque<ContentId>,
    jobs: VecDeque<Job>,
    /// Until when it waits, after a job that the disk did not take.
    again: Option<Instant>,
    /// Captures of this life that the engine has heard of.
    pub(super) captures: u64,
    /// Tokens in the rounds after the base.
    pub(super) cut_tokens: u64,
}

/// Work on a fold.
#[derive(Debug)]
pub(super) enum Job {
    /// `Output::Materialise`.
    Materialise(Vec<Cut>),
    /// `Output::Stabilise`.
    Stabilise(Version),
    /// `Output::Install`.
    Install(ContentId),
    /// The base's file was damaged: it is written again.
    Keep,
}

/// What a blocking thread has done.
#[derive(Debug)]
pub(super) enum Done {
    /// A job on a fold.
    Folded { fragment: FragmentId, fold: Box<Fold>, outcome: Result<Folded, Broken> },
    /// A check of a payload.
    Checked { payload: ContentId, fragment: FragmentId, outcome: Checked },
    /// An own payload is stored.
    Stored { fragment: FragmentId, payload: Arc<[u8]>, outcome: Result<ContentId, StoreError> },
    /// The write that held the outputs back.
    Written(Result<(), StoreError>),
    /// A damaged file was put aside: a base, or a payload that is still needed.
    Lost { content: ContentId, base: bool },
    /// A folder for a checkpoint is there.
    Folder { folder: PathBuf, reply: SyncSender<Saved> },
    /// A checkpoint is in its place.
    Placed(Placed),
    /// Something on the disk that nothing waits for.
    Chore(Result<(), StoreError>),
    /// The work panicked.
    Panicked,
}

/// Does work on a blocking thread and tells the driver what came of it, whatever it was.
pub(super) fn spawn(done: &mpsc::Sender<Done>, work: impl FnOnce() -> Done + Send + 'static) {
    let done = done.clone();
    tokio::task::spawn_blocking(move || {
        // Nothing that the work had is used again: the driver ends.
        let came = catch_unwind(AssertUnwindSafe(work)).unwrap_or(Done::Panicked);
        // The driver may have ended.
        let _ = done.blocking_send(came);
    });
}

/// What a check found, or none if the payload could not be read back, and why.
pub(super) type Checked = Result<Result<(), Fault>, String>;

/// What came of a job.
#[derive(Debug)]
pub(super) struct Folded {
    /// What the engine waits for.
    pub(super) input: Option<Input>,
    /// The parameters of the head, if they changed.
    head: Option<Arc<[f32]>>,
    /// A base that is on disk now.
    base: Option<ContentId>,
}

/// Why a job could not be done.
#[derive(Debug)]
pub(super) enum Broken {
    /// A payload is gone or broken.
    Missing(ContentId),
    /// The disk does not take the new base; the job is tried again.
    Disk(Job, Box<StoreError>),
    /// The engine asked for something that cannot be.
    Impossible(FoldError),
}

impl Part {
    pub(super) fn new(
        fragment: Fragment,
        genesis: &Genesis,
        base: OuterState,
        digest: ContentId,
        budget: Budget,
    ) -> Self {
        let head = base.params().into();
        let fold = Some(Box::new(Fold::new(fragment.clone(), genesis, base, budget)));
        Self {
            fragment,
            fold,
            head,
            bases: VecDeque::from([digest]),
            jobs: VecDeque::new(),
            again: None,
            captures: 0,
            cut_tokens: 0,
        }
    }

    /// The parameters of the head.
    pub(super) fn head(&self) -> Arc<[f32]> {
        self.head.clone()
    }

    /// Digests of the bases that are on disk.
    pub(super) fn bases(&self) -> impl Iterator<Item = ContentId> {
        self.bases.iter().copied()
    }

    /// Puts a job behind the others.
    pub(super) fn enqueue(&mut self, job: Job) {
        if let Job::Materialise(cuts) = &job {
            let members = cuts.iter().flat_map(|cut| &cut.members);
            self.cut_tokens = members.map(|member| member.tokens).sum();
        }
        self.jobs.push_back(job);
    }

    /// Writes the base again if `digest` is its digest; one before it is served no more.
    pub(super) fn keep_again(&mut self, digest: ContentId) {
        if self.bases.back() == Some(&digest) {
            self.enqueue(Job::Keep);
        } else {
            self.bases.retain(|known| *known != digest);
        }
    }

    /// Its name, and what it is made of.
    pub(super) fn shape(&self) -> &Fragment {
        &self.fragment
    }

    /// Whether a job is under way.
    pub(super) fn is_working(&self) -> bool {
        self.fold.is_none()
    }

    /// Starts the next job, unless one is under way. True if it did.
    pub(super) fn work(&mut self, store: &Store, done: &mpsc::Sender<Done>) -> bool {
        if self.jobs.is_empty() || self.again.is_some_and(|again| Instant::now() < again) {
            return false;
        }
        let Some(mut fold) = self.fold.take() else { return false };
        let Some(job) = self.jobs.pop_front() else { return false };
        let (store, shape) = (store.clone(), self.fragment.clone());
        spawn(done, move || {
            let outcome = run(&mut fold, &shape, job, &store);
            Done::Folded { fragment: shape.id, fold, outcome }
        });
        true
    }

    /// A job has ended: takes the fold back, and what changed.
    pub(super) fn ended(&mut self, fold: Box<Fold>, outcome: &Result<Folded, Broken>) {
        self.fold = Some(fold);
        let Ok(folded) = outcome else { return };
        if let Some(head) = &folded.head {
            self.head = head.clone();
        }
        if let Some(base) = folded.base {
            self.bases.retain(|known| *known != base);
            self.bases.push_back(base);
            if self.bases.len() > BASES_KEPT {
                self.bases.pop_front();
            }
        }
    }

    /// Puts a job back in front: it is tried again at that time.
    pub(super) fn put_back(&mut self, job: Job, again: Instant) {
        self.jobs.push_front(job);
        self.again = Some(again);
    }
}

fn run(fold: &mut Fold, shape: &Fragment, job: Job, store: &Store) -> Result<Folded, Broken> {
    match job {
        Job::Materialise(cuts) => {
            let digest = fold.refold(&cuts, store, &Inline).map_err(broken)?;
            let version = fold.head().version();
            let input = Input::Materialised { fragment: shape.id, version, digest };
            let input = Some(input);
            Ok(Folded { input, head: Some(fold.head().params().into()), base: None })
        }
        Job::Stabilise(version) => {
            let digest = fold.advance_base(version, store, &Inline).map_err(broken)?;
            if let Err(error) = store.put_base(digest, fold.base().bytes(), shape.id) {
                return Err(Broken::Disk(Job::Stabilise(version), error.into()));
            }
            let input = Input::Stabilised { fragment: shape.id, version, digest };
            Ok(Folded { input: Some(input), head: None, base: Some(digest) })
        }
        Job::Keep => {
            let digest = fold.base().digest(&Inline);
            if let Err(error) = store.put_base(digest, fold.base().bytes(), shape.id) {
                return Err(Broken::Disk(Job::Keep, error.into()));
            }
            Ok(Folded { input: None, head: None, base: Some(digest) })
        }
        Job::Install(content) => install(fold, shape, content, store),
    }
}

fn install(
    fold: &mut Fold,
    shape: &Fragment,
    content: ContentId,
    store: &Store,
) -> Result<Folded, Broken> {
    let installed = |good| Some(Input::Installed { fragment: shape.id, content, good });
    let is_good =
        |bytes: &Vec<u8>| content_id(bytes) == content && OuterState::check(bytes, shape).is_ok();
    let Some(snapshot) = store.content(&content).ok().flatten().filter(is_good) else {
        return Ok(Folded { input: installed(false), head: None, base: None });
    };
    if let Err(error) = store.put_base(content, &snapshot, shape.id) {
        return Err(Broken::Disk(Job::Install(content), error.into()));
    }
    fold.install(&snapshot).expect("checked just now");
    drop(snapshot);
    let head = Some(fold.head().params().into());
    Ok(Folded { input: installed(true), head, base: Some(content) })
}

/// Checks a stored payload, and keeps what was measured.
pub(super) fn check(
    store: &Store,
    genesis: &Genesis,
    shape: &Fragment,
    payload: &ContentId,
) -> Checked {
    let bytes = store.content(payload).map_err(|error| error.to_string())?;
    let bytes = bytes.ok_or_else(|| format!("payload {payload} is gone"))?;
    match outer::check(&bytes, genesis.codec, shape, genesis.merge.norm_max, &Inline) {
        Ok(norms) => {
            store.measure(payload, shape.id, &norms);
            Ok(Ok(()))
        }
        Err(_) => Ok(Err(Fault::BadPayload)),
    }
}

fn broken(error: FoldError) -> Broken {
    match error {
        FoldError::Missing { payload, .. } => Broken::Missing(payload),
        other => Broken::Impossible(other),
    }
}

/// Bases kept on disk for each fragment, as the donor rule has it.
const BASES_KEPT: usize = 2;
