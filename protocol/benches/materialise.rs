//! What a round costs: its parts alone, all of it, with two threads, and when it comes late.
//!
//! `cargo bench -p atoll-protocol --bench materialise`; prints Markdown. Every figure of a table
//! is the median of measurements that took turns in one run, so that a busy machine slows all
//! of them alike; the ratios mean more than the milliseconds.

#![allow(clippy::unwrap_used, reason = "a bench may stop here")]
#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::disallowed_types, reason = "a bench measures time")]

#[path = "../tests/support/swarm.rs"]
#[allow(dead_code, reason = "shared with the tests of the fold")]
mod swarm;
#[path = "../tests/support/threads.rs"]
mod threads;

use std::hint::black_box;
use std::time::Instant;

use atoll_protocol::codec::{self, Codec, Payload};
use atoll_protocol::fragment::Fragment;
use atoll_protocol::genesis::{Genesis, MergeRule, TensorKind};
use atoll_protocol::id::Version;
use atoll_protocol::island::Account;
use atoll_protocol::outer::{self, Budget, Fold, Member, Norms, OuterState};
use atoll_protocol::pool::Pool;
use atoll_protocol::rng::Rng;
use swarm::{Contribution, Store, bell, contribute_with, cuts, fragment, genesis};
use threads::Threads;

const ELEMENTS: usize = 1 << 22;
const MEMBERS: u8 = 8;
const TURNS: usize = 7;
/// Rounds until a fold has all the buffers that it will have.
const FILL: usize = 40;
const CODEC: Codec = Codec::Int4;

fn main() {
    let swarm = Swarm::new();
    let (one, two) = (Threads::new(1), Threads::new(2));
    println!("One round: {MEMBERS} contributions, {ELEMENTS} parameters, {CODEC:?}\n");
    swarm.parts(&one, &two);
    swarm.rules(&one);
    for copies in [32, 18, 4] {
        swarm.late(&one, Budget::of_copies(copies));
    }
    swarm.account(&one, &two);
}

struct Swarm {
    fragment: Fragment,
    payloads: Vec<(Vec<u8>, Norms)>,
    store: Store,
    /// Contributions to 80 rounds, which share eight payloads.
    known: Vec<Contribution>,
}

impl Swarm {
    fn new() -> Self {
        let quarter = ELEMENTS / 4;
        let fragment = fragment(&[
            (TensorKind::Matrix, quarter),
            (TensorKind::Matrix, quarter - 1000),
            (TensorKind::Vector, 1000),
            (TensorKind::Embedding, 2 * quarter),
        ]);
        let mut rng = Rng::new(1);
        let mut store = Store::default();
        let mut payloads = Vec::new();
        let mut known = Vec::new();
        for author in 0..MEMBERS {
            let values = bell(&mut rng, ELEMENTS, 0.01);
            let payload = codec::encode(CODEC, &values, &Threads::new(2)).unwrap();
            let norms = outer::check(&payload, CODEC, &fragment, 1e6, &Threads::new(2)).unwrap();
            payloads.push((payload, norms));
            for round in 1..=80 {
                let payload = payloads[usize::from(author)].clone();
                known.push(contribute_with(&mut store, round, author, 1000, payload));
            }
        }
        Self { fragment, payloads, store, known }
    }

    fn fold(&self, rule: MergeRule, budget: Budget) -> Fold {
        let genesis = Genesis { codec: CODEC, ..genesis(rule) };
        let params = bell(&mut Rng::new(2), ELEMENTS, 0.02);
        let base = OuterState::new(self.fragment.id, &params);
        Fold::new(self.fragment.clone(), &genesis, base, budget)
    }

    /// The parts alone, on buffers that are already there, and the fold of one more round.
    fn parts(&self, one: &Threads, two: &Threads) {
        let genesis = genesis(MergeRule::Mean);
        let mut decoded = vec![vec![0.0f32; ELEMENTS]; usize::from(MEMBERS)];
        let mut merged = vec![0.0f32; ELEMENTS];
        let mut state = self.fold(MergeRule::Mean, Budget::AMPLE).head().clone();
        let mut folds = [(); 2].map(|()| self.fold(MergeRule::Mean, Budget::AMPLE));
        let mut times = vec![Vec::new(); 2 * PARTS.len()];
        // The first rounds fill the fold's buffers; they are not counted.
        for turn in 0..FILL + TURNS {
            for (column, pool) in [one, two].into_iter().enumerate() {
                pool.wake();
                let mut note = |part: usize, time| times[2 * part + column].push(time);
                let round = Version::try_from(turn + 1).unwrap();
                let cuts = cuts(&self.known, 0, round);
                let fold = &mut folds[column];
                let whole = time(|| fold.refold(&cuts, &self.store, pool).unwrap());
                if turn < FILL {
                    continue;
                }
                note(0, time(|| self.decode(&mut decoded, pool)));
                note(1, time(|| norms(&decoded, pool)));
                note(2, time(|| mean(&decoded, &mut merged, pool)));
                note(3, time(|| outer::step(&mut state, &genesis.outer, &merged, pool)));
                note(4, time(|| state.digest(pool)));
                note(5, time(|| self.check(pool)));
                note(6, whole);
            }
        }
        let medians: Vec<f64> = times.into_iter().map(median).collect();
        println!("| part | 1 thread, ms | 2 threads, ms | speed-up |\n|---|---|---|---|");
        for (name, pair) in PARTS.iter().zip(medians.chunks_exact(2)) {
            println!("| {name} | {:.1} | {:.1} | {:.2} |", pair[0], pair[1], pair[0] / pair[1]);
        }
        for column in 0..2 {
            let at = |part: usize| medians[2 * part + column];
            let folded = at(0) + at(2) + at(3) + at(4);
            println!(
                "\n{} thread(s): fold / (decode + merge + step + digest) = {:.2}; \
                 (check + fold) / (all five parts) = {:.2}",
                column + 1,
                at(6) / folded,
                (at(5) + at(6)) / (folded + at(1)),
            );
        }
    }

    fn decode(&self, decoded: &mut [Vec<f32>], pool: &dyn Pool) {
        for ((payload, _), out) in self.payloads.iter().zip(decoded) {
            Payload::open(payload, CODEC, ELEMENTS).unwrap().decode(out, pool).unwrap();
        }
    }

    fn check(&self, pool: &dyn Pool) {
        for (payload, _) in &self.payloads {
            black_box(outer::check(payload, CODEC, &self.fragment, 1e6, pool).unwrap());
        }
    }

    /// Every rule's merge, from payloads.
    fn rules(&self, pool: &Threads) {
        let members: Vec<_> = self
            .payloads
            .iter()
            .map(|(payload, norms)| Member { tokens: 1000, payload, norms })
            .collect();
        let rules =
            [MergeRule::Mean, MergeRule::Rda, MergeRule::TrimmedMean, MergeRule::CenteredClip];
        let mut out = vec![0.0; ELEMENTS];
        let mut times = vec![Vec::new(); rules.len()];
        for _ in 0..3 {
            for (times, rule) in times.iter_mut().zip(rules) {
                let merge = genesis(rule).merge;
                times.push(time(|| {
                    outer::merge_into(&self.fragment, &merge, CODEC, &members, &mut out, pool)
                }));
            }
        }
        println!("\n| rule, 1 thread | merge, ms |\n|---|---|");
        for (rule, times) in rules.iter().zip(times) {
            println!("| {rule:?} | {:.1} |", median(times));
        }
    }

    /// A base 64 rounds behind: one more round, against a contribution eight rounds late.
    fn late(&self, pool: &Threads, budget: Budget) {
        let mut fold = self.fold(MergeRule::Mean, budget);
        let (mut ordinary, mut late) = (Vec::new(), Vec::new());
        let without = |round: Version, head: Version| {
            let mut cuts = cuts(&self.known, 0, head);
            cuts[round as usize - 1].members.pop();
            cuts
        };
        fold.refold(&without(56, 64), &self.store, pool).unwrap();
        for head in 65..65 + 8 {
            // The round that was short becomes whole in the late re-fold; the next one is short.
            let whole = cuts(&self.known, 0, head - 1);
            late.push(time(|| fold.refold(&whole, &self.store, pool).unwrap()));
            let next = without(head - 8, head - 1);
            fold.refold(&next, &self.store, pool).unwrap();
            let next = without(head - 8, head);
            ordinary.push(time(|| fold.refold(&next, &self.store, pool).unwrap()));
        }
        let worst = late.iter().copied().fold(0.0, f64::max);
        let (ordinary, late) = (median(ordinary), median(late));
        let copies = budget.copies();
        println!("\n| base 64 behind, {copies} copies, 1 thread | ms | ratio |\n|---|---|---|");
        println!("| one more round | {ordinary:.1} | 1.00 |");
        println!("| eight rounds late, median | {late:.1} | {:.2} |", late / ordinary);
        println!("| eight rounds late, worst of 8 | {worst:.1} | {:.2} |", worst / ordinary);
    }

    /// The island's side of a round.
    fn account(&self, one: &Threads, two: &Threads) {
        println!("\n| island | 1 thread, ms | 2 threads, ms |\n|---|---|---|");
        let mut rng = Rng::new(5);
        let outer = bell(&mut rng, ELEMENTS, 0.02);
        let next = bell(&mut rng, ELEMENTS, 0.02);
        let mut local = bell(&mut rng, ELEMENTS, 0.02);
        let mut account = Account::new(&outer);
        let mut times = vec![Vec::new(); 6];
        for _ in 0..TURNS {
            for (column, pool) in [one, two].into_iter().enumerate() {
                pool.wake();
                let mut payload = Vec::new();
                let capture = time(|| payload = account.capture(&local, CODEC, pool).unwrap());
                times[column].push(capture);
                for (row, version, pending) in
                    [(1, &next, &[payload.as_slice()][..]), (2, &outer, &[])]
                {
                    times[2 * row + column].push(time(|| {
                        account.adopt(&mut local, version, pending, &[], CODEC, pool).unwrap();
                    }));
                }
            }
        }
        let medians: Vec<f64> = times.into_iter().map(median).collect();
        for (name, pair) in
            ["capture", "adopt, still pending", "adopt, merged"].iter().zip(medians.chunks(2))
        {
            println!("| {name} | {:.1} | {:.1} |", pair[0], pair[1]);
        }
    }
}

const PARTS: [&str; 7] = [
    "decode 8",
    "norms 8",
    "clip + merge 8, decoded",
    "outer step",
    "digest",
    "check 8 (decode + norms, on admission)",
    "fold one round (decode, clip, merge, step, digest)",
];

/// Norms of decoded values, as a plain loop over fixed lanes.
fn norms(decoded: &[Vec<f32>], pool: &dyn Pool) {
    let parts: Vec<&[f32]> = decoded.iter().flat_map(|values| values.chunks(1 << 17)).collect();
    black_box(atoll_protocol::pool::map(pool, parts, |part| {
        let mut lanes = [0.0f64; 16];
        for block in part.chunks_exact(16) {
            for (lane, value) in lanes.iter_mut().zip(block) {
                *lane += f64::from(*value) * f64::from(*value);
            }
        }
        lanes.iter().sum::<f64>()
    }));
}

/// The weighted sum of decoded values.
fn mean(decoded: &[Vec<f32>], merged: &mut [f32], pool: &dyn Pool) {
    let parts = merged.chunks_mut(1 << 17).enumerate().collect();
    atoll_protocol::pool::map(pool, parts, |(index, part): (usize, &mut [f32])| {
        part.fill(0.0);
        for values in decoded {
            let values = &values[index << 17..][..part.len()];
            part.iter_mut().zip(values).for_each(|(sum, value)| *sum += 0.125 * value);
        }
    });
}

fn time<R>(work: impl FnOnce() -> R) -> f64 {
    let start = Instant::now();
    black_box(work());
    start.elapsed().as_secs_f64() * 1e3
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}
