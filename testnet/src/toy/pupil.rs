//! The toy as an island: the same seam behind which a real node trains.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use atoll_node::island::{Island, IslandError, Pause, Step};
use atoll_protocol::fragment::Fragment;
use atoll_protocol::genesis::Genesis;
use atoll_protocol::id::FragmentId;
use atoll_protocol::outer::OuterState;

use super::layout::Layout;
use super::learner::{BATCH, Learner, LearnerCheckpoint};
use super::task::Task;
use super::{LEARNING_RATE, shard};
use crate::lesson::Lesson;

/// The toy's lesson: a run whose tensors are those of the toy.
#[derive(Clone, Debug)]
pub struct Toy(Arc<Frame>);

/// What all islands of a run share.
#[derive(Debug)]
struct Frame {
    task: Task,
    fragments: Vec<Fragment>,
    layout: Layout,
    initial: Vec<f32>,
}

impl Toy {
    /// The lesson of `task` in the run of `genesis`.
    pub fn new(task: Task, genesis: &Genesis) -> Self {
        let (layout, map) = (Layout::new(genesis), genesis.fragment_map());
        let initial = layout.initial(genesis, &map);
        Self(Arc::new(Frame { task, fragments: map.fragments().to_vec(), layout, initial }))
    }
}

impl Lesson for Toy {
    fn island(&self, seed: u64, number: u64) -> Result<Box<dyn Island>, IslandError> {
        let (frame, params) = (self.0.clone(), self.0.initial.clone());
        let learner = Learner::new(&frame.task, shard(seed, number));
        Ok(Box::new(Pupil { frame, learner, params }))
    }

    fn batch(&self) -> u64 {
        BATCH
    }

    fn rate(&self, _tokens: u64) -> f32 {
        LEARNING_RATE
    }

    fn loss(&self, states: &[&OuterState]) -> f64 {
        let Frame { task, fragments, layout, .. } = &*self.0;
        let mut params = vec![0.0; layout.elements()];
        for state in states {
            layout.scatter(&fragments[state.fragment().index()], state.params(), &mut params);
        }
        task.loss(&params)
    }
}

/// An island that learns the toy.
#[derive(Debug)]
struct Pupil {
    frame: Arc<Frame>,
    learner: Learner,
    /// The whole model, tensors in name order.
    params: Vec<f32>,
}

impl Pupil {
    fn fragment(&self, id: FragmentId) -> Result<&Fragment, IslandError> {
        self.frame.fragments.get(id.index()).ok_or(IslandError::NoFragment(id))
    }
}

impl Island for Pupil {
    fn advance(&mut self, learning_rate: f32, _: Pause<'_>) -> Result<Option<Step>, IslandError> {
        Ok(Some(self.learner.step(&self.frame.task, &mut self.params, learning_rate)))
    }

    fn read(
        &mut self,
        fragment: FragmentId,
        look: &mut dyn FnMut(&[f32]),
    ) -> Result<(), IslandError> {
        look(&self.frame.layout.gather(self.fragment(fragment)?, &self.params));
        Ok(())
    }

    fn change(
        &mut self,
        fragment: FragmentId,
        change: &mut dyn FnMut(&mut [f32]),
    ) -> Result<(), IslandError> {
        let mut part = self.frame.layout.gather(self.fragment(fragment)?, &self.params);
        change(&mut part);
        let frame = &self.frame;
        frame.layout.scatter(&frame.fragments[fragment.index()], &part, &mut self.params);
        Ok(())
    }

    fn evaluate(&mut self) -> Result<f64, IslandError> {
        Ok(self.frame.task.loss(&self.params))
    }

    fn save(&mut self, into: &Path) -> Result<(), IslandError> {
        let path = into.join(FILE);
        let saved = (self.learner.checkpoint(), &self.params);
        let bytes = bincode::serde::encode_to_vec(saved, bincode::config::standard());
        let bytes = bytes.map_err(|error| IslandError::Checkpoint(error.to_string()))?;
        fs::write(&path, bytes).map_err(|source| IslandError::File { path, source })
    }

    fn restore(&mut self, from: &Path) -> Result<(), IslandError> {
        let path = from.join(FILE);
        let bytes = fs::read(&path).map_err(|source| IslandError::File { path, source })?;
        let read = bincode::serde::decode_from_slice(&bytes, bincode::config::standard());
        let ((state, params), _): ((LearnerCheckpoint, Vec<f32>), usize) =
            read.map_err(|error| IslandError::Checkpoint(error.to_string()))?;
        if params.len() != self.params.len() {
            let (given, wanted) = (params.len(), self.params.len());
            return Err(IslandError::Parameters { given, wanted });
        }
        self.learner.restore(state);
        self.params = params;
        Ok(())
    }
}

const FILE: &str = "pupil";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restored_pupil_goes_on_as_if_nothing_had_happened() {
        let task = Task::new(1);
        let mut genesis = Genesis::custom("test", task.tensors());
        genesis.fragments = 3;
        let toy = Toy::new(task, &genesis);
        let mut one = toy.island(1, 2).unwrap();
        let mut other = toy.island(1, 2).unwrap();
        for _ in 0..5 {
            one.step(0.01).unwrap();
        }
        one.change(FragmentId(1), &mut |part| part[3] = 0.5).unwrap();
        let folder = tempfile::tempdir().unwrap();
        one.save(folder.path()).unwrap();
        other.restore(folder.path()).unwrap();
        assert_eq!(one.step(0.01).unwrap(), other.step(0.01).unwrap());
        for fragment in (0..3).map(FragmentId) {
            let mut parts = Vec::new();
            one.read(fragment, &mut |part| parts.push(part.to_vec())).unwrap();
            other.read(fragment, &mut |part| parts.push(part.to_vec())).unwrap();
            assert_eq!(parts[0], parts[1]);
        }
        assert!(one.read(FragmentId(3), &mut |_| ()).is_err());
    }
}
