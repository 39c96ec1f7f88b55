//! One island's batches, in an order that only it follows.

use std::sync::Arc;

use atoll_protocol::id::{NodeId, RunId, Short};
use serde::{Deserialize, Serialize};

use super::lane::{self, Lane, TOP};
use super::permutation::Permutation;
use super::split::Split;
use super::{DataError, Dataset, Tokens, keyed, number};

/// One island's batches.
///
/// Which sequence comes when is a function of the run, the island and how many were drawn before.
/// A finite text is drawn in passes, each without replacement and in an order of its own; from the
/// generated corpus every island reads documents of its own.
#[derive(Debug)]
pub struct Feed {
    dataset: Arc<Dataset>,
    sequence: usize,
    batch: usize,
    drawn: u64,
    identity: Short,
    order: Order,
    bytes: Vec<u8>,
}

/// A place in a [`Feed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// Sequences drawn.
    pub drawn: u64,
    /// What they were drawn from, and by whom.
    pub identity: Short,
}

#[derive(Debug)]
enum Order {
    Shuffled { split: Split, key: [u8; 32], pass: u64, permutation: Permutation },
    Lanes { start: u64, lanes: Vec<Lane> },
}

impl Feed {
    /// The batches of `island` in `run`: `batch` sequences of `sequence` tokens each.
    ///
    /// # Panics
    ///
    /// If `sequence` or `batch` is 0, which no genesis allows.
    pub fn new(
        dataset: &Arc<Dataset>,
        run: &RunId,
        island: &NodeId,
        sequence: usize,
        batch: usize,
    ) -> Result<Self, DataError> {
        assert!(sequence > 0 && batch > 0, "a batch has tokens");
        let key = keyed("atoll 2026 order of an island's data v1", &[&run.0, &island.0]);
        let length = (sequence as u64).to_le_bytes();
        let identity =
            keyed("atoll 2026 identity of a cursor v1", &[&key, &dataset.digest(), &length]);
        let order = match &dataset.tokens {
            Tokens::File(file) => {
                let split = Split::new(file.count(), sequence as u64, run.0)?;
                let permutation = permutation(&split, key, 0);
                Order::Shuffled { split, key, pass: 0, permutation }
            }
            Tokens::Generated(_) => Order::Lanes {
                start: number(key) & !TOP,
                lanes: std::iter::repeat_with(Lane::default).take(LANES).collect(),
            },
        };
        Ok(Self {
            dataset: Arc::clone(dataset),
            sequence,
            batch,
            drawn: 0,
            identity: RunId(identity).short(),
            order,
            bytes: Vec::new(),
        })
    }

    /// Fills `tokens` with the next batch, sequence after sequence, each with one token more than
    /// the model reads: its last target. On an error the place stays as it was.
    pub fn next(&mut self, tokens: &mut Vec<u32>) -> Result<(), DataError> {
        tokens.clear();
        for index in 0..self.batch as u64 {
            self.sequence_at(self.drawn + index, tokens)?;
        }
        self.drawn += self.batch as u64;
        Ok(())
    }

    /// The place to resume from.
    pub fn cursor(&self) -> Cursor {
        Cursor { drawn: self.drawn, identity: self.identity }
    }

    /// Goes to a place that [`Feed::cursor`] gave, for the same run, island, text, tokenizer and
    /// sequence length.
    pub fn seek(&mut self, cursor: Cursor) -> Result<(), DataError> {
        if cursor.identity != self.identity {
            return Err(DataError::Cursor);
        }
        self.drawn = cursor.drawn;
        Ok(())
    }

    /// How often this island has been through the whole text; none if the text never ends.
    pub fn passes(&self) -> Option<f64> {
        match &self.order {
            Order::Shuffled { split, .. } => Some(self.drawn as f64 / split.training() as f64),
            Order::Lanes { .. } => None,
        }
    }

    fn sequence_at(&mut self, index: u64, into: &mut Vec<u32>) -> Result<(), DataError> {
        match (&mut self.order, &self.dataset.tokens) {
            (Order::Shuffled { split, key, pass, permutation: order }, Tokens::File(file)) => {
                let wanted = index / split.training();
                if *pass != wanted {
                    (*pass, *order) = (wanted, permutation(split, *key, wanted));
                }
                let window = split.training_window(order.at(index % split.training()));
                file.read(window * self.sequence as u64, self.sequence + 1, &mut self.bytes, into)
            }
            (Order::Lanes { start, lanes }, Tokens::Generated(corpus)) => {
                let lane = usize::try_from(index % LANES as u64).expect("below a small number");
                let pieces = lane::pieces(self.sequence) as u64;
                // Lanes begin at different places, so a batch never has only beginnings in it.
                let place = index / LANES as u64 + lane as u64 * pieces / LANES as u64;
                let stretch = place / pieces * LANES as u64 + lane as u64;
                let piece = usize::try_from(place % pieces).expect("below a usize");
                let first = lane::first_document(*start, stretch, self.sequence);
                let at = (piece, self.sequence);
                lanes[lane].read(corpus, &self.dataset.tokenizer, first, at, into)
            }
            _ => unreachable!("the order was made for these tokens"),
        }
    }
}

fn permutation(split: &Split, key: [u8; 32], pass: u64) -> Permutation {
    let key = keyed("atoll 2026 order of a pass v1", &[&key, &pass.to_le_bytes()]);
    Permutation::new(split.training(), key)
}

/// Stretches of the generated corpus that are read side by side, so that the sequences of a batch
/// come from different documents.
const LANES: usize = 32;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use atoll_protocol::rng::Rng;
    use proptest::prelude::*;

    use super::super::{HeldOut, Source, Tokenizer};
    use super::*;

    const RUN: RunId = RunId([1; 32]);
    const ISLAND: NodeId = NodeId([2; 32]);

    /// A text of random letters, so that no two windows are the same.
    fn finite(letters: u64) -> Arc<Dataset> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text.txt");
        let mut rng = Rng::new(1);
        let mut letter = || char::from(b'!' + u8::try_from(rng.below(90)).unwrap());
        let text: String = (0..letters).map(|_| letter()).collect();
        std::fs::write(&path, text).unwrap();
        let source = Source::named(path.to_str().unwrap(), None).unwrap();
        let cache = folder.path().join("cache");
        Arc::new(Dataset::open(&source, Tokenizer::byte(), 256, &cache, &mut |_| {}).unwrap())
    }

    fn generated() -> Arc<Dataset> {
        let source = Source::Generated { seed: 5 };
        let cache = std::path::Path::new("unused");
        Arc::new(Dataset::open(&source, Tokenizer::byte(), 256, cache, &mut |_| {}).unwrap())
    }

    fn batches(feed: &mut Feed, count: usize) -> Vec<Vec<u32>> {
        let mut tokens = Vec::new();
        let mut batch = || {
            feed.next(&mut tokens).unwrap();
            tokens.clone()
        };
        (0..count).map(|_| batch()).collect()
    }

    /// The first tokens of every window of a pass of a finite text.
    fn windows(dataset: &Arc<Dataset>, island: NodeId, passes: u64) -> Vec<Vec<u32>> {
        let mut feed = Feed::new(dataset, &RUN, &island, 10, 1).unwrap();
        let Order::Shuffled { split, .. } = &feed.order else { panic!("finite") };
        let count = usize::try_from(split.training() * passes).unwrap();
        batches(&mut feed, count)
    }

    #[test]
    fn a_pass_has_every_training_window_once_and_no_other() {
        let dataset = finite(5000);
        let one = windows(&dataset, ISLAND, 1);
        let two = windows(&dataset, ISLAND, 2).split_off(one.len());
        assert_ne!(one, two, "passes have different orders");
        assert_ne!(one, windows(&dataset, NodeId([3; 32]), 1), "and so have islands");
        let mut held = HeldOut::new(&dataset, &RUN, 10, u64::MAX).unwrap();
        let mut all: Vec<Vec<u32>> = Vec::new();
        for index in 0..held.count() {
            let mut window = Vec::new();
            held.read(index, &mut window).unwrap();
            assert!(!one.contains(&window) && !two.contains(&window), "held out and trained on");
            all.push(window);
        }
        assert_eq!(held.count(), 500 / 32);
        all.extend(one.iter().cloned());
        let mut again: Vec<Vec<u32>> = two;
        let mut sorted = one;
        sorted.sort();
        again.sort();
        assert_eq!(sorted, again);
        assert_eq!(all.len(), 500);
        assert_eq!(all.into_iter().collect::<BTreeSet<_>>().len(), 500);
    }

    #[test]
    fn islands_read_different_documents_and_none_reads_what_is_held_out() {
        let dataset = generated();
        let mut held = HeldOut::new(&dataset, &RUN, 64, 200).unwrap();
        let mut seen = BTreeSet::new();
        let mut window = Vec::new();
        for index in 0..held.count() {
            window.clear();
            held.read(index, &mut window).unwrap();
            assert_eq!(window.len(), 65);
            assert!(seen.insert(window.clone()));
        }
        for island in [ISLAND, NodeId([3; 32])] {
            let mut feed = Feed::new(&dataset, &RUN, &island, 64, 8).unwrap();
            for batch in batches(&mut feed, 50) {
                for window in batch.chunks_exact(65) {
                    assert!(seen.insert(window.to_vec()), "seen twice");
                }
            }
        }
    }

    #[test]
    fn held_out_sequences_are_the_runs() {
        for dataset in [finite(5000), generated()] {
            let read = |run, at_most| {
                let mut held = HeldOut::new(&dataset, &RunId([run; 32]), 20, at_most).unwrap();
                let mut tokens = Vec::new();
                (0..held.count()).for_each(|index| held.read(index, &mut tokens).unwrap());
                tokens
            };
            assert_eq!(read(1, 5), read(1, 5));
            assert_eq!(read(1, 5).len(), 5 * 21);
            assert_ne!(read(1, 5), read(2, 5));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn a_cursor_resumes_with_the_same_batches(
            before in 0_usize..400, finite_data: bool, batch in 1_usize..6,
        ) {
            let dataset = if finite_data { finite(3000) } else { generated() };
            let feed = || Feed::new(&dataset, &RUN, &ISLAND, 24, batch).unwrap();
            let mut one = feed();
            batches(&mut one, before);
            let saved = serde_json::to_string(&one.cursor()).unwrap();
            let mut two = feed();
            two.seek(serde_json::from_str(&saved).unwrap()).unwrap();
            prop_assert_eq!(batches(&mut one, 70), batches(&mut two, 70));
            prop_assert_eq!(one.cursor(), two.cursor());
        }
    }

    #[test]
    fn a_cursor_of_other_data_is_refused() {
        let (text, corpus) = (finite(3000), generated());
        let cursor = Feed::new(&text, &RUN, &ISLAND, 24, 2).unwrap().cursor();
        let refused = |dataset: &Arc<Dataset>, run, island, sequence| {
            let mut feed = Feed::new(dataset, &run, &island, sequence, 2).unwrap();
            matches!(feed.seek(cursor), Err(DataError::Cursor))
        };
        assert!(refused(&corpus, RUN, ISLAND, 24));
        assert!(refused(&finite(3001), RUN, ISLAND, 24));
        assert!(refused(&text, RunId([9; 32]), ISLAND, 24));
        assert!(refused(&text, RUN, NodeId([9; 32]), 24));
        assert!(refused(&text, RUN, ISLAND, 25));
        assert!(!refused(&finite(3000), RUN, ISLAND, 24), "the path does not matter");
    }

    #[test]
    fn a_short_text_is_refused() {
        let dataset = finite(99);
        let error = Feed::new(&dataset, &RUN, &ISLAND, 50, 1).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the text has 100 tokens, but sequences of 50 need at least 101"
        );
        assert!(HeldOut::new(&dataset, &RUN, 50, 1).is_err());
        assert!(Feed::new(&dataset, &RUN, &ISLAND, 49, 1).is_ok());
    }

    #[test]
    fn a_tokenizer_must_fit_the_model() {
        let source = Source::Generated { seed: 5 };
        let cache = std::path::Path::new("unused");
        let opened = Dataset::open(&source, Tokenizer::byte(), 200, cache, &mut |_| {});
        assert!(matches!(opened, Err(DataError::Vocabulary { id: 255, vocab: 200 })));
    }

    #[test]
    fn the_first_batch_is_fixed_for_ever() {
        let mut feed = Feed::new(&generated(), &RUN, &ISLAND, 128, 8).unwrap();
        let tokens = batches(&mut feed, 3).pop().unwrap();
        let bytes: Vec<u8> = tokens.iter().flat_map(|id| id.to_le_bytes()).collect();
        assert_eq!(&blake3::hash(&bytes).to_hex().as_str()[..16], "1c85136ce0a72697");
    }
}
