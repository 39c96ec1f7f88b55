//! What all nodes of a run have in common, worked out once.

use std::rc::Rc;

use atoll_protocol::fragment::Fragment;
use atoll_protocol::genesis::Genesis;
use atoll_protocol::id::{ContentId, FragmentId};
use atoll_protocol::outer::OuterState;
use atoll_protocol::planted::Planted;
use atoll_protocol::pool::{Inline, Pool};

use crate::toy::{Layout, Task};

/// The run's constants.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) genesis: Genesis,
    pub(super) fragments: Vec<Fragment>,
    /// Version 0 of each fragment.
    pub(super) initial: Vec<Rc<OuterState>>,
    pub(super) initial_digests: Vec<ContentId>,
    pub(super) task: Task,
    pub(super) planted: Planted,
    pub(super) pool: Box<dyn Pool>,
    layout: Layout,
}

impl Shared {
    /// The constants of a run of `genesis`, folded on so many threads.
    pub(super) fn new(genesis: Genesis, task: Task, planted: Planted, threads: usize) -> Self {
        let fragments = genesis.fragment_map().fragments().to_vec();
        let initial: Vec<Rc<OuterState>> = fragments
            .iter()
            .map(|fragment| Rc::new(OuterState::new(fragment.id, &genesis.initial(fragment))))
            .collect();
        let layout = Layout::new(&genesis);
        let pool = pool(threads);
        let initial_digests = initial.iter().map(|state| state.digest(pool.as_ref())).collect();
        Self { genesis, fragments, initial, initial_digests, task, planted, pool, layout }
    }

    /// Number of parameters of the whole model.
    pub(super) fn parameters(&self) -> usize {
        self.layout.elements()
    }

    /// Every fragment's id.
    pub(super) fn ids(&self) -> impl Iterator<Item = FragmentId> + use<> {
        (0..self.genesis.fragments).map(FragmentId)
    }

    /// A fragment's slice of the whole model's parameters.
    pub(super) fn gather(&self, fragment: FragmentId, params: &[f32]) -> Vec<f32> {
        self.layout.gather(&self.fragments[fragment.index()], params)
    }

    /// Puts a fragment's slice into the whole model's parameters.
    pub(super) fn scatter(&self, fragment: FragmentId, slice: &[f32], params: &mut [f32]) {
        self.layout.scatter(&self.fragments[fragment.index()], slice, params);
    }

    /// The held-out loss of outer states, one for each fragment.
    pub(super) fn loss<'a>(&self, states: impl Iterator<Item = &'a OuterState>) -> f64 {
        let mut params = vec![0.0; self.parameters()];
        for state in states {
            self.scatter(state.fragment(), state.params(), &mut params);
        }
        self.task.loss(&params)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gather_and_scatter_are_inverse() {
        let task = Task::new(1);
        let mut genesis = Genesis::custom("test", task.tensors());
        genesis.fragments = 3;
        let shared = Shared::new(genesis, task, Planted::default(), 1);
        let params: Vec<f32> =
            (0..shared.parameters()).map(|n| f32::from(u16::try_from(n).unwrap())).collect();
        let mut again = vec![0.0; params.len()];
        for id in shared.ids() {
            shared.scatter(id, &shared.gather(id, &params), &mut again);
        }
        assert_eq!(params, again);
    }
}
