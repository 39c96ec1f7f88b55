//! The sequences that nobody in the run trains on.

use std::sync::Arc;

use atoll_protocol::id::RunId;

use super::lane::{self, Lane, TOP};
use super::split::Split;
use super::{DataError, Dataset, Tokens, keyed, number};

/// The sequences that nobody in the run trains on: the same for every island with the same text.
#[derive(Debug)]
pub struct HeldOut {
    dataset: Arc<Dataset>,
    sequence: usize,
    count: u64,
    order: Order,
    bytes: Vec<u8>,
}

#[derive(Debug)]
enum Order {
    Windows(Split),
    Lane { start: u64, lane: Lane },
}

impl HeldOut {
    /// At most `at_most` held-out sequences of `run`, spread over all there are.
    ///
    /// # Panics
    ///
    /// If `sequence` is 0, which no genesis allows.
    pub fn new(
        dataset: &Arc<Dataset>,
        run: &RunId,
        sequence: usize,
        at_most: u64,
    ) -> Result<Self, DataError> {
        assert!(sequence > 0, "a sequence has tokens");
        let (order, count) = match &dataset.tokens {
            Tokens::File(file) => {
                let split = Split::new(file.count(), sequence as u64, run.0)?;
                (Order::Windows(split), at_most.min(split.held_out()))
            }
            Tokens::Generated(_) => {
                let key = keyed("atoll 2026 held-out documents v1", &[&run.0]);
                (Order::Lane { start: number(key) | TOP, lane: Lane::default() }, at_most)
            }
        };
        Ok(Self { dataset: Arc::clone(dataset), sequence, count, order, bytes: Vec::new() })
    }

    /// How many sequences there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Appends sequence `index`: one token more than the model reads.
    ///
    /// # Panics
    ///
    /// If there are not so many.
    pub fn read(&mut self, index: u64, into: &mut Vec<u32>) -> Result<(), DataError> {
        assert!(index < self.count, "there are {} held-out sequences, not {index}", self.count);
        match (&mut self.order, &self.dataset.tokens) {
            (Order::Windows(split), Tokens::File(file)) => {
                let spread = u128::from(index) * u128::from(split.held_out());
                let spread = u64::try_from(spread / u128::from(self.count));
                let window = split.held_out_window(spread.expect("below the number held out"));
                file.read(window * self.sequence as u64, self.sequence + 1, &mut self.bytes, into)
            }
            (Order::Lane { start, lane }, Tokens::Generated(corpus)) => {
                let pieces = lane::pieces(self.sequence) as u64;
                let kept = pieces.min(KEPT);
                let first = lane::first_document(*start, index / kept, self.sequence);
                let piece = index % kept * pieces / kept;
                let piece = usize::try_from(piece).expect("below a usize");
                let at = (piece, self.sequence);
                lane.read(corpus, &self.dataset.tokenizer, first, at, into)
            }
            _ => unreachable!("the order was made for these tokens"),
        }
    }
}

/// Sequences taken from one stretch of the generated corpus, so that a short evaluation sees many
/// documents.
const KEPT: u64 = 4;
