//! How far the last own contributions have come.

use std::collections::VecDeque;

use atoll_protocol::id::RoundId;

use super::status::Receipt;

/// The last receipts, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Receipts(VecDeque<Receipt>);

impl Receipts {
    /// Notes how far the contribution to `round` has come.
    pub(super) fn note(&mut self, round: RoundId, merged_by: u32, of: u32) {
        if let Some(known) = self.0.iter_mut().find(|it| it.round == round) {
            (known.merged_by, known.of) = (merged_by, of);
            return;
        }
        if self.0.len() == RECEIPTS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Receipt { round, merged_by, of });
    }

    /// All of them.
    pub(super) fn list(&self) -> Vec<Receipt> {
        self.0.iter().copied().collect()
    }
}

/// What fits on a page.
const RECEIPTS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use atoll_protocol::id::FragmentId;

    use super::*;

    #[test]
    fn the_last_32_rounds_are_kept_each_once() {
        let mut receipts = Receipts::default();
        let round = |number| RoundId { fragment: FragmentId(0), number };
        for number in 0..40 {
            receipts.note(round(number), 1, 8);
            receipts.note(round(number), 2, 8);
        }
        receipts.note(round(20), 8, 8);
        let list = receipts.list();
        assert_eq!(list.len(), 32);
        assert_eq!(list[0], Receipt { round: round(8), merged_by: 2, of: 8 });
        assert_eq!(list[12], Receipt { round: round(20), merged_by: 8, of: 8 });
    }
}
