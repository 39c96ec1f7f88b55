//! The outer optimiser: Nesterov SGD, element by element.

use crate::genesis::Outer;
use crate::outer::state::OuterState;
use crate::pool::{self, Pool};

/// Turns a version into the next one with the merge of that round.
///
/// # Panics
/// If `merged` does not have one value for each parameter.
pub fn step(state: &mut OuterState, outer: &Outer, merged: &[f32], pool: &dyn Pool) {
    steps(state, outer, &[merged], pool);
}

/// Several steps in one pass over the state: each chunk takes all of them while it is in cache.
pub(super) fn steps(state: &mut OuterState, outer: &Outer, merges: &[&[f32]], pool: &dyn Pool) {
    let rounds = u32::try_from(merges.len()).expect("a horizon has at most 4096 rounds");
    let version = state.version() + rounds;
    let (params, momentum) = state.parts_mut();
    for merged in merges {
        assert_eq!(merged.len(), params.len(), "a merge has one value for each parameter");
    }
    let parts = params.chunks_mut(PART).zip(momentum.chunks_mut(PART)).enumerate().collect();
    pool::map(pool, parts, |(index, (params, momentum))| {
        for merged in merges {
            step_part(params, momentum, &merged[index * PART..][..params.len()], outer);
        }
    });
    state.set_version(version);
}

fn step_part(params: &mut [f32], momentum: &mut [f32], merged: &[f32], outer: &Outer) {
    let (eta, mu) = (outer.learning_rate, outer.momentum);
    for ((param, momentum), &gradient) in params.iter_mut().zip(momentum).zip(merged) {
        *momentum = mu * *momentum + gradient;
        *param -= eta * (gradient + mu * *momentum);
    }
}

/// Elements a job steps at once: parameters, momentum and a merge of them fit in a core's cache.
const PART: usize = 1 << 15;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::FragmentId;
    use crate::pool::Inline;

    #[test]
    fn nesterov_by_hand() {
        let outer = Outer { learning_rate: 0.5, momentum: 0.5 };
        let mut state = OuterState::new(FragmentId(0), &[1.0, -2.0]);
        step(&mut state, &outer, &[1.0, 0.0], &Inline);
        // m = 1, theta = 1 - 0.5 * (1 + 0.5)
        assert_eq!((state.params(), state.momentum()), (&[0.25, -2.0][..], &[1.0, 0.0][..]));
        step(&mut state, &outer, &[0.0, 4.0], &Inline);
        // m = 0.5 and 4, theta = 0.25 - 0.5 * 0.25 and -2 - 0.5 * (4 + 2)
        assert_eq!((state.params(), state.momentum()), (&[0.125, -5.0][..], &[0.5, 4.0][..]));
        assert_eq!(state.version(), 2);
    }

    #[test]
    fn many_steps_at_once_are_the_same_bits() {
        let outer = Outer { learning_rate: 0.7, momentum: 0.9 };
        let params: Vec<f32> = (0..PART + 9).map(|n| (n as f32).sqrt()).collect();
        let merges: Vec<Vec<f32>> =
            (1..4).map(|round| params.iter().map(|p| p / (round * 3) as f32).collect()).collect();
        let mut one_by_one = OuterState::new(FragmentId(0), &params);
        let mut at_once = one_by_one.clone();
        merges.iter().for_each(|merged| step(&mut one_by_one, &outer, merged, &Inline));
        let merges: Vec<&[f32]> = merges.iter().map(Vec::as_slice).collect();
        steps(&mut at_once, &outer, &merges, &Inline);
        assert_eq!(one_by_one, at_once);
    }
}
