//! Simulated swarms as every change must leave them: a few drawn ones, the named ones, and equal
//! traces for equal seeds. `cargo testnet sim` runs many more.

use atoll_testnet::runner::{self, Verdict};
use atoll_testnet::scenario;
use atoll_testnet::sim::{Setup, liars, plan};

fn drawn(seed: u64) -> Setup {
    Setup { cast: liars::cast, ..plan::draw(seed) }
}

fn assert_passes(name: &str, setup: Setup) {
    let verdict = runner::run(setup, None);
    assert_eq!(verdict.exit_code(), 0, "{name}: {verdict:?}");
}

#[test]
fn drawn_swarms_keep_every_invariant() {
    for seed in 1..=6 {
        assert_passes(&format!("seed {seed}"), drawn(seed));
    }
}

#[test]
fn what_waits_survives_a_crash_between_two_records() {
    // A node took another history, which held what waited; the crash left it the old one.
    assert_passes("seed 304", drawn(304));
}

#[test]
fn equal_seeds_give_equal_traces_with_any_number_of_threads() {
    let verdict: Verdict = runner::run_twice(&drawn(7));
    assert_eq!(verdict.exit_code(), 0, "{verdict:?}");
}

#[test]
fn named_swarms_end_as_their_names_say() {
    for name in ["partition-beyond-horizon", "fresh-node-cannot-overwrite", "everyone-restarts"] {
        let swarms = scenario::named(name, 1);
        assert!(!swarms.is_empty(), "{name} is listed");
        swarms.into_iter().for_each(|swarm| assert_passes(name, swarm.setup));
    }
}
