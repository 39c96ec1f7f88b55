//! All islands of a case together.

use atoll_protocol::rng::Rng;

use super::case::Case;
use super::island::{self, micros};
use super::times::Pace;

/// What a case came to. Shares between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Useful time of all chips.
    pub goodput: f64,
    /// Time in which some island trains.
    pub someone_trains: f64,
}

/// Simulates `case` for so many seconds. Equal seeds give equal results.
pub fn measure(case: &Case, pace: &Pace, seconds: f64, seed: u64) -> Measured {
    let mut rng = Rng::new(seed);
    let mut useful = 0.0;
    let mut changes = Vec::new();
    for _ in 0..case.islands {
        let log = island::run(case, pace, seconds, &mut rng.fork());
        useful += log.useful;
        changes.extend(log.stops.iter().flat_map(|(from, to)| [(*from, 1), (*to, -1)]));
    }
    let total = case.islands as f64 * seconds;
    Measured {
        goodput: useful / total,
        someone_trains: 1.0 - all_stand(changes, case.islands) / micros(seconds) as f64,
    }
}

/// Microseconds in which all islands stand, from the moments at which they stop and go on.
fn all_stand(mut changes: Vec<(u64, i64)>, islands: u64) -> f64 {
    // At one moment those who go on come first: nobody stands twice.
    changes.sort_unstable();
    let (mut standing, mut since, mut sum) = (0i64, 0, 0);
    for (at, change) in changes {
        if standing.unsigned_abs() == islands {
            sum += at - since;
        }
        standing += change;
        since = at;
    }
    sum as f64
}

#[cfg(test)]
mod tests {
    use super::super::case::Policy;
    use super::super::times::Times;
    use super::*;

    #[test]
    fn all_stand_only_where_stops_overlap() {
        let stops = vec![(0, 1), (10, -1), (5, 1), (20, -1), (20, 1), (30, -1)];
        assert!((all_stand(stops.clone(), 2) - 5.0).abs() < 1e-9);
        assert!(all_stand(stops, 3).abs() < 1e-9);
    }

    #[test]
    fn equal_seeds_give_equal_results() {
        let case = Case {
            chips: 600_000,
            islands: 8,
            policy: Policy::Elastic,
            mtbi_seconds: 365.0 * 86_400.0,
        };
        let run = |seed| measure(&case, &Pace::new(Times::default()), 86_400.0, seed);
        assert_eq!(run(4), run(4));
        assert_ne!(run(4), run(5));
    }

    #[test]
    fn independent_islands_stand_together_as_often_as_chance_says() {
        let case = |islands| Case {
            chips: 600_000 * islands,
            islands,
            policy: Policy::ALONE,
            mtbi_seconds: 365.0 * 86_400.0,
        };
        let run =
            |islands| measure(&case(islands), &Pace::new(Times::default()), 7.0 * 86_400.0, 2);
        let stands = 1.0 - run(1).goodput;
        let seen = 1.0 - run(3).someone_trains;
        assert!((seen - stands.powi(3)).abs() < 0.02, "{seen} against {}", stands.powi(3));
        assert!((1.0 - run(1).someone_trains - stands).abs() < 1e-6);
    }
}
