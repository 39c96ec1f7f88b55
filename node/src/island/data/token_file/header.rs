//! The first bytes of a token file, which say what the rest is.

/// What a token file says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Bytes of a token.
    pub(super) width: usize,
    /// Every token is below this.
    pub(super) vocab: u32,
    /// Tokens in the file.
    pub(super) count: u64,
    /// What made the tokens.
    pub(super) tokenizer: [u8; 32],
    /// What the tokens were made from.
    pub(super) fingerprint: [u8; 32],
    /// A hash of the tokens as they are stored.
    pub(super) content: [u8; 32],
}

impl Header {
    /// Bytes of a header.
    pub(super) const LENGTH: usize = BODY + 32;

    /// Bytes of a token below `vocab`.
    pub(super) fn width_for(vocab: u32) -> usize {
        if vocab <= 1 << 16 { 2 } else { 4 }
    }

    /// Bytes of the whole file, if there can be such a file.
    pub(super) fn file_length(&self) -> Option<u64> {
        self.count.checked_mul(self.width as u64)?.checked_add(Self::LENGTH as u64)
    }

    /// The header as it is stored: fields in order, little-endian, then a hash of them.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::LENGTH);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.vocab.to_le_bytes());
        bytes.extend_from_slice(&self.count.to_le_bytes());
        for hash in [&self.tokenizer, &self.fingerprint, &self.content] {
            bytes.extend_from_slice(hash);
        }
        debug_assert_eq!(bytes.len(), BODY);
        let checksum = *blake3::hash(&bytes).as_bytes();
        bytes.extend_from_slice(&checksum);
        bytes
    }

    /// The header in `bytes`; none if it is torn or of another version.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, checksum) = bytes.get(..Self::LENGTH)?.split_at(BODY);
        if blake3::hash(body).as_bytes() != checksum || &body[..8] != MAGIC {
            return None;
        }
        let word = |at: usize| Some(u32::from_le_bytes(body.get(at..at + 4)?.try_into().ok()?));
        let hash = |at: usize| body.get(at..at + 32)?.try_into().ok();
        let vocab = word(12)?;
        (word(8)? == VERSION).then_some(Self {
            width: Self::width_for(vocab),
            vocab,
            count: u64::from_le_bytes(body.get(16..24)?.try_into().ok()?),
            tokenizer: hash(24)?,
            fingerprint: hash(56)?,
            content: hash(88)?,
        })
    }
}

/// The first bytes of every token file.
pub(super) const MAGIC: &[u8; 8] = b"ATOLLTOK";

const VERSION: u32 = 1;

const BODY: usize = 120;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn headers_come_back_and_damage_shows(
            vocab: u32, count: u64, hashes: [[u8; 32]; 3], at in 0..Header::LENGTH, bit in 0..8_u8,
        ) {
            let [tokenizer, fingerprint, content] = hashes;
            let width = Header::width_for(vocab);
            let header = Header { width, vocab, count, tokenizer, fingerprint, content };
            let mut bytes = header.encode();
            prop_assert_eq!(bytes.len(), Header::LENGTH);
            prop_assert_eq!(Header::decode(&bytes), Some(header));
            prop_assert_eq!(Header::decode(&bytes[..at]), None);
            bytes[at] ^= 1 << bit;
            prop_assert_eq!(Header::decode(&bytes), None);
        }
    }
}
