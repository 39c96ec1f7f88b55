//! A stretch of the generated corpus, cut into sequences one after another.

use super::generated::Generated;
use super::{DataError, Tokenizer};

/// A stretch of the generated corpus: documents from one number on, until it is full.
#[derive(Debug, Default)]
pub(super) struct Lane {
    first: Option<u64>,
    tokens: Vec<u32>,
    text: Vec<u8>,
}

impl Lane {
    /// Appends sequence `piece` of the stretch that begins with document `first`.
    pub(super) fn read(
        &mut self,
        corpus: &Generated,
        tokenizer: &Tokenizer,
        first: u64,
        (piece, sequence): (usize, usize),
        into: &mut Vec<u32>,
    ) -> Result<(), DataError> {
        if self.first != Some(first) {
            self.first = None;
            self.fill(corpus, tokenizer, first, pieces(sequence) * sequence + 1)?;
            self.first = Some(first);
        }
        into.extend_from_slice(&self.tokens[piece * sequence..=(piece + 1) * sequence]);
        Ok(())
    }

    fn fill(
        &mut self,
        corpus: &Generated,
        tokenizer: &Tokenizer,
        first: u64,
        length: usize,
    ) -> Result<(), DataError> {
        self.tokens.clear();
        let mut document = first;
        while self.tokens.len() < length {
            self.text.clear();
            corpus.write(document, &mut self.text);
            let text = std::str::from_utf8(&self.text).expect("the corpus is ASCII");
            tokenizer.encode(text, &mut self.tokens)?;
            self.tokens.extend(tokenizer.separator());
            // Flipping the top bit is what parts held-out documents from the rest, so a number
            // must not run over into it.
            document = (document & TOP) | (document.wrapping_add(1) & !TOP);
        }
        self.tokens.truncate(length);
        Ok(())
    }
}

/// Sequences in a stretch: long enough that few documents are cut off at its end.
pub(super) fn pieces(sequence: usize) -> usize {
    (STRETCH / sequence).max(1)
}

/// The first document of stretch `index` for a reader that begins at `start`.
pub(super) fn first_document(start: u64, index: u64, sequence: usize) -> u64 {
    // A document has at least one token, so stretches this far apart share none.
    let apart = (pieces(sequence) * sequence + 1) as u64;
    (start & TOP) | (start.wrapping_add(index.wrapping_mul(apart)) & !TOP)
}

/// The bit of a document's number that says it is held out.
pub(super) const TOP: u64 = 1 << 63;

const STRETCH: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_follow_one_another() {
        let (corpus, tokenizer) = (Generated::new(3), Tokenizer::byte());
        let mut lane = Lane::default();
        let (mut one, mut two) = (Vec::new(), Vec::new());
        lane.read(&corpus, &tokenizer, 5, (0, 100), &mut one).unwrap();
        lane.read(&corpus, &tokenizer, 5, (1, 100), &mut two).unwrap();
        assert_eq!((one.len(), two.len(), one[100]), (101, 101, two[0]));
        let mut text = Vec::new();
        corpus.write(5, &mut text);
        let bytes: Vec<u32> = text.iter().map(|byte| u32::from(*byte)).collect();
        assert_eq!(one[..], bytes[..101]);
    }

    #[test]
    fn held_out_documents_stay_held_out() {
        assert_eq!(first_document(TOP | (TOP - 1), 1, 8192) & TOP, TOP);
        assert_eq!(first_document(TOP - 1, 1, 8192) & TOP, 0);
        assert_eq!(first_document(0, 3, 8192), 3 * 8193);
    }
}
