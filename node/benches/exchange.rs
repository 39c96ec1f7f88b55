//! What meeting the outer state costs: capture, encode and adopt of every fragment once in 24
//! steps, as a share of those steps.
//!
//! `cargo bench -p atoll-node --bench exchange -- [preset...]`

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use atoll_node::island::Island;
use atoll_node::island::data::{Dataset, Source, Tokenizer};
use atoll_node::island::device::Device;
use atoll_node::island::exchange::Exchange;
use atoll_node::island::layout::Layout;
use atoll_node::island::learner::{Choices, Learner};
use atoll_node::island::precision::Precision;
use atoll_protocol::genesis::{Genesis, Model};
use atoll_protocol::id::{FragmentId, NodeId};
use atoll_protocol::pool::Inline;

#[expect(clippy::print_stdout, reason = "the figures are for whoever ran it")]
fn main() {
    let mut presets: Vec<String> =
        std::env::args().skip(1).filter(|it| !it.starts_with('-')).collect();
    if presets.is_empty() {
        presets = vec!["nano".into(), "micro".into()];
    }
    for preset in presets {
        let mut rounds: Vec<(f64, f64)> = measure(&preset);
        rounds.sort_by(|one, other| (one.1 / one.0).total_cmp(&(other.1 / other.0)));
        let shares: Vec<String> =
            rounds.iter().map(|(steps, met)| format!("{:.2}", 100.0 * met / steps)).collect();
        let (steps, met) = rounds[rounds.len() / 2];
        println!(
            "{preset:>6}: 24 steps {:.1} ms, capture + encode + adopt {:.2} ms, {:.2} % (rounds: {})",
            1e3 * steps,
            1e3 * met,
            100.0 * met / steps,
            shares.join(" ")
        );
    }
}

/// Seconds of 24 steps and of the exchange after them, round by round.
fn measure(preset: &str) -> Vec<(f64, f64)> {
    let model = Model::preset(preset).unwrap_or_else(|| panic!("no preset {preset}"));
    let genesis = Genesis::new("bench", model);
    let mut island = island(&genesis);
    let mut exchange =
        Exchange::new(&mut island, genesis.fragments, genesis.codec).expect("an island to read");
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for _ in 0..24 {
            island.step(1e-3).expect("a step");
        }
        let steps = began.elapsed().as_secs_f64();
        let mut met = 0.0;
        for fragment in (0..genesis.fragments).map(FragmentId) {
            let began = Instant::now();
            let payload =
                exchange.capture(&mut island, fragment, &Inline).expect("finite parameters");
            met += began.elapsed().as_secs_f64();
            // The fold is the swarm's work and not the island's.
            let account = exchange.account(fragment).expect("a fragment of the run");
            let merged: Vec<f32> =
                account.outer().iter().zip(account.pending()).map(|(a, b)| a + 0.9 * b).collect();
            let began = Instant::now();
            exchange
                .adopt(&mut island, fragment, &merged, &[], &[], &Inline)
                .expect("an outer version of this fragment");
            met += began.elapsed().as_secs_f64();
            drop(payload);
        }
        rounds.push((steps, met));
    }
    rounds
}

fn island(genesis: &Genesis) -> Learner {
    let source = Source::Generated { seed: 0 };
    let dataset = Dataset::open(&source, Tokenizer::byte(), 256, Path::new("unused"), &mut |_| {})
        .expect("the generated corpus needs no file");
    let choices = Choices {
        device: Device::cpu(),
        threads: 2,
        accumulate: 1,
        precision: Precision::quickest(),
    };
    let parameters = Layout::new(genesis).initial(genesis);
    Learner::new(genesis, &NodeId([1; 32]), &Arc::new(dataset), &choices, parameters)
        .expect("a preset fits")
}

const ROUNDS: usize = 7;
