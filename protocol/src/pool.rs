//! Parallel work without threads of our own: the caller brings the pool.

#![allow(
    clippy::disallowed_types,
    reason = "the one place that hands disjoint parts to a caller's threads"
)]

use std::fmt::Debug;
use std::sync::Mutex;

/// Runs independent jobs, perhaps at once. How many threads it has never changes a result.
pub trait Pool: Sync + Debug {
    /// Calls `job` once with every number in `0..jobs`, and returns when all are done.
    fn run(&self, jobs: usize, job: &(dyn Fn(usize) + Sync));
}

/// The pool of a caller that has none: one job after another.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inline;

impl Pool for Inline {
    fn run(&self, jobs: usize, job: &(dyn Fn(usize) + Sync)) {
        (0..jobs).for_each(job);
    }
}

/// Gives each of `parts` to `work` once and returns what it made of them, in order.
pub fn map<T: Send, R: Send>(
    pool: &dyn Pool,
    parts: Vec<T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    if parts.len() == 1 {
        return parts.into_iter().map(work).collect();
    }
    let cells: Vec<Mutex<(Option<T>, Option<R>)>> =
        parts.into_iter().map(|part| Mutex::new((Some(part), None))).collect();
    pool.run(cells.len(), &|index| {
        let mut cell = cells[index].lock().expect("a pool that panicked does not go on");
        if let Some(part) = cell.0.take() {
            cell.1 = Some(work(part));
        }
    });
    let whole = "a pool runs every job before it returns";
    cells.into_iter().map(|cell| cell.into_inner().expect(whole).1.expect(whole)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn map_keeps_the_order() {
        let doubled = map(&Inline, vec![1, 2, 3], |n| n * 2);
        assert_eq!(doubled, [2, 4, 6]);
        assert!(map(&Inline, Vec::<u8>::new(), |n| n).is_empty());
    }
}
