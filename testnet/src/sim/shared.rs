//! What all nodes of a run have in common, worked out once.

use std::rc::Rc;
use std::sync::Arc;

use atoll_protocol::fragment::Fragment;
use atoll_protocol::genesis::Genesis;
use atoll_protocol::id::{ContentId, FragmentId};
use atoll_protocol::outer::OuterState;
use atoll_protocol::planted::Planted;
use atoll_protocol::pool::{Inline, Pool};

use crate::lesson::Lesson;

/// The run's constants.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) genesis: Genesis,
    pub(super) fragments: Vec<Fragment>,
    /// Version 0 of each fragment.
    pub(super) initial: Vec<Rc<OuterState>>,
    pub(super) initial_digests: Vec<ContentId>,
    pub(super) lesson: Arc<dyn Lesson>,
    pub(super) planted: Planted,
    pub(super) pool: Box<dyn Pool>,
}

impl Shared {
    /// The constants of a run of `genesis`, folded on so many threads.
    pub(super) fn new(
        genesis: Genesis,
        lesson: Arc<dyn Lesson>,
        planted: Planted,
        threads: usize,
    ) -> Self {
        let fragments = genesis.fragment_map().fragments().to_vec();
        let initial: Vec<Rc<OuterState>> = fragments
            .iter()
            .map(|fragment| Rc::new(OuterState::new(fragment.id, &genesis.initial(fragment))))
            .collect();
        let pool = pool(threads);
        let initial_digests = initial.iter().map(|state| state.digest(pool.as_ref())).collect();
        Self { genesis, fragments, initial, initial_digests, lesson, planted, pool }
    }

    /// Every fragment's id.
    pub(super) fn ids(&self) -> impl Iterator<Item = FragmentId> + use<> {
        (0..self.genesis.fragments).map(FragmentId)
    }

    /// The held-out loss of outer states, one for each fragment.
    pub(super) fn loss<'a>(&self, states: impl Iterator<Item = &'a OuterState>) -> f64 {
        self.lesson.loss(&states.collect::<Vec<_>>())
    }
}

/// Threads of rayon's, or none.
fn pool(threads: usize) -> Box<dyn Pool> {
    match rayon::ThreadPoolBuilder::new().num_threads(threads).build() {
        Ok(pool) if threads > 1 => Box::new(Threads(pool)),
        _ => Box::new(Inline),
    }
}

#[derive(Debug)]
struct Threads(rayon::ThreadPool);

impl Pool for Threads {
    fn run(&self, jobs: usize, job: &(dyn Fn(usize) + Sync)) {
        use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};
        self.0.install(|| (0..jobs).into_par_iter().for_each(job));
    }
}
