//! The language: which symbol follows which two, by exact probabilities.

use atoll_protocol::rng::Rng;

/// A generated order-2 language over [`SYMBOLS`] symbols.
///
/// Every symbol has a class and a rank. The classes of the last two symbols decide which class
/// is likely next (the grammar); the rank of the last symbol, which rank. Everything is left
/// possible, so the entropy is not zero.
#[derive(Clone, Debug)]
pub struct Language {
    /// For each context, running totals of the successors' weights in [`SHARES`] parts.
    totals: Vec<[u32; SYMBOLS]>,
    /// For each context, the successors' probabilities.
    probabilities: Vec<[f32; SYMBOLS]>,
    /// How often each context is met when walks begin anywhere.
    frequencies: Vec<f64>,
}

impl Language {
    /// The language of `seed`.
    pub fn new(seed: u64) -> Self {
        let habits = Habits::draw(&mut Rng::new(seed));
        let mut totals = Vec::with_capacity(CONTEXTS);
        let mut probabilities = Vec::with_capacity(CONTEXTS);
        for context in 0..CONTEXTS {
            let weights = habits.weights(context / SYMBOLS, context % SYMBOLS);
            let running = running_totals(&weights);
            probabilities.push(shares(&running));
            totals.push(running);
        }
        let frequencies = frequencies(&probabilities);
        Self { totals, probabilities, frequencies }
    }

    /// Draws the symbol that follows `older` and `newer`.
    pub fn next(&self, rng: &mut Rng, older: usize, newer: usize) -> usize {
        let drawn = rng.below(u64::from(SHARES));
        self.totals[older * SYMBOLS + newer].partition_point(|total| u64::from(*total) <= drawn)
    }

    /// The probabilities of what follows `older` and `newer`.
    pub fn successors(&self, older: usize, newer: usize) -> &[f32; SYMBOLS] {
        &self.probabilities[older * SYMBOLS + newer]
    }

    /// How often the context of `older` and `newer` is met; all of them sum to one.
    pub fn frequency(&self, older: usize, newer: usize) -> f64 {
        self.frequencies[older * SYMBOLS + newer]
    }

    /// Entropy of the next symbol in nats: no model can have a lower loss.
    pub fn entropy(&self) -> f64 {
        let mut entropy = 0.0;
        for (row, frequency) in self.probabilities.iter().zip(&self.frequencies) {
            let of_row: f64 = row.iter().map(|p| f64::from(*p)).map(|p| -p * p.ln()).sum();
            entropy += frequency * of_row;
        }
        entropy
    }
}

/// What a language was generated from.
///
/// Each habit is one list of weights, turned by an amount that the context decides. So the
/// languages of all seeds are equally hard, and no habit hides behind another.
struct Habits {
    class: [usize; SYMBOLS],
    rank: [usize; SYMBOLS],
    /// Turns of the class weights, by the class of the newer symbol.
    newer: [usize; CLASSES],
    /// Turns of the class weights, by the class of the older symbol.
    older: [usize; CLASSES],
    /// Turns of the rank weights, by the rank of the newer symbol.
    echo: [usize; RANKS],
}

impl Habits {
    fn draw(rng: &mut Rng) -> Self {
        let order: [usize; SYMBOLS] = permutation(rng);
        Self {
            class: order.map(|place| place % CLASSES),
            rank: order.map(|place| place / CLASSES),
            newer: permutation(rng),
            older: permutation(rng),
            echo: permutation(rng),
        }
    }

    fn weights(&self, older: usize, newer: usize) -> [u32; SYMBOLS] {
        let (from_newer, from_older) =
            (self.newer[self.class[newer]], self.older[self.class[older]]);
        let echo = self.echo[self.rank[newer]];
        std::array::from_fn(|symbol| {
            let (class, rank) = (self.class[symbol], self.rank[symbol]);
            NEWER_WEIGHTS[(class + from_newer) % CLASSES]
                * OLDER_WEIGHTS[(class + from_older) % CLASSES]
                * BOTH_WEIGHTS[(class + from_newer + from_older) % CLASSES]
                * ECHO_WEIGHTS[(rank + echo) % RANKS]
        })
    }
}

fn permutation<const N: usize>(rng: &mut Rng) -> [usize; N] {
    let mut order = std::array::from_fn(|place| place);
    rng.shuffle(&mut order);
    order
}

/// Running totals scaled so that the last is exactly [`SHARES`].
fn running_totals(weights: &[u32; SYMBOLS]) -> [u32; SYMBOLS] {
    let whole: u32 = weights.iter().sum();
    let mut running = 0;
    weights.map(|weight| {
        running += weight;
        running * SHARES / whole
    })
}

fn shares(totals: &[u32; SYMBOLS]) -> [f32; SYMBOLS] {
    let mut before = 0;
    totals.map(|total| {
        let share = u16::try_from(total - before).expect("no successor is certain");
        before = total;
        // A power of two: the division is exact.
        f32::from(share) / 65536.0
    })
}

/// The mean over a walk's positions of where a walk from a uniformly drawn context is.
fn frequencies(probabilities: &[[f32; SYMBOLS]]) -> Vec<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a small power of two")]
    let mut place = vec![1.0 / CONTEXTS as f64; CONTEXTS];
    let mut sum = vec![0.0; CONTEXTS];
    for _ in 0..WALK {
        let mut next = vec![0.0; CONTEXTS];
        for (context, row) in probabilities.iter().enumerate() {
            sum[context] += place[context] / f64::from(WALK);
            let newer = context % SYMBOLS;
            for (into, probability) in next[newer * SYMBOLS..].iter_mut().zip(row) {
                *into += place[context] * f64::from(*probability);
            }
        }
        place = next;
    }
    sum
}

/// A drawn number as an index.
pub(super) fn index(drawn: u64) -> usize {
    usize::try_from(drawn).expect("draws are below the number of contexts")
}

/// Symbols of the language.
pub const SYMBOLS: usize = 32;
/// Symbols read in a row before a walk begins anew.
pub const WALK: u32 = 8;

const CONTEXTS: usize = SYMBOLS * SYMBOLS;
const CLASSES: usize = 4;
const RANKS: usize = SYMBOLS / CLASSES;
/// Parts of a whole in which probabilities are counted.
const SHARES: u32 = 65536;
/// Weights of the next class that hang on the class of the newer symbol,
const NEWER_WEIGHTS: [u32; CLASSES] = [6, 3, 2, 1];
/// on that of the older symbol,
const OLDER_WEIGHTS: [u32; CLASSES] = [4, 3, 2, 1];
/// and on both, which only a hidden layer can learn.
const BOTH_WEIGHTS: [u32; CLASSES] = [3, 2, 1, 1];
/// Weights of the next rank, which hang on the rank of the newer symbol.
const ECHO_WEIGHTS: [u32; RANKS] = [16, 8, 4, 2, 1, 1, 1, 1];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_sum_to_one_everywhere() {
        let language = Language::new(3);
        let mut all = 0.0;
        for older in 0..SYMBOLS {
            for newer in 0..SYMBOLS {
                let row = language.successors(older, newer);
                assert!(row.iter().all(|p| *p > 0.0));
                assert_eq!(row.iter().sum::<f32>(), 1.0, "sums of these fractions are exact");
                all += language.frequency(older, newer);
            }
        }
        assert!((all - 1.0).abs() < 1e-9);
    }

    #[test]
    fn draws_follow_the_probabilities() {
        let language = Language::new(4);
        let mut rng = Rng::new(5);
        let mut counts = [0_u32; SYMBOLS];
        for _ in 0..20_000 {
            counts[language.next(&mut rng, 3, 9)] += 1;
        }
        for (count, probability) in counts.iter().zip(language.successors(3, 9)) {
            let share = f64::from(*count) / 20_000.0;
            assert!((share - f64::from(*probability)).abs() < 0.015);
        }
    }
}
