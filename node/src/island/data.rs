//! What an island trains on: sources of text, tokenizers, and the order in which islands see it.
//!
//! A [`Dataset`] is opened once. A [`Feed`] draws one island's batches from it, [`HeldOut`] the
//! sequences that nobody in the run trains on.

pub mod error;
pub mod feed;
pub mod generated;
pub mod held_out;
pub mod source;
pub mod tokenizer;

mod lane;
mod permutation;
mod split;
mod token_file;

use std::path::Path;

pub use error::DataError;
pub use feed::{Cursor, Feed};
pub use held_out::HeldOut;
pub use source::{GENERATED, Progress, Source};
pub use tokenizer::{Tokenizer, TokenizerFiles};

use generated::Generated;
use token_file::TokenFile;

/// Text as tokens, ready to be drawn from.
#[derive(Debug)]
pub struct Dataset {
    tokenizer: Tokenizer,
    tokens: Tokens,
}

#[derive(Debug)]
enum Tokens {
    /// Endless, made when it is needed.
    Generated(Generated),
    /// Tokenized once into a file of our own.
    File(TokenFile),
}

impl Dataset {
    /// Opens `source` for a model with `vocab` entries.
    ///
    /// Files are tokenized into the folder `cache`, which is made if it is missing, unless it
    /// already holds their tokens; `progress` hears how far that is. The generated corpus needs no
    /// cache.
    pub fn open(
        source: &Source,
        tokenizer: Tokenizer,
        vocab: u32,
        cache: &Path,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, DataError> {
        tokenizer.check_fits(vocab)?;
        let tokens = match source {
            Source::Generated { seed } => Tokens::Generated(Generated::new(*seed)),
            Source::Files(files) => {
                Tokens::File(token_file::open_or_build(files, &tokenizer, cache, progress)?)
            }
        };
        Ok(Self { tokenizer, tokens })
    }

    /// How text became tokens.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// How many tokens there are; none if they never end.
    pub fn tokens(&self) -> Option<u64> {
        match &self.tokens {
            Tokens::Generated(_) => None,
            Tokens::File(file) => Some(file.count()),
        }
    }

    /// A hash of every token there is.
    fn digest(&self) -> [u8; 32] {
        match &self.tokens {
            Tokens::Generated(corpus) => {
                let mut hasher = blake3::Hasher::new();
                hasher.update(generated::GENERATED_TAG);
                hasher.update(&corpus.seed().to_le_bytes());
                hasher.update(&self.tokenizer.digest());
                *hasher.finalize().as_bytes()
            }
            Tokens::File(file) => file.content(),
        }
    }
}

/// A hash over `parts` in the domain `tag`, none of which can be mistaken for another.
fn keyed(tag: &str, parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key(tag);
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}

/// The first eight bytes of a hash as a number.
fn number(hash: [u8; 32]) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash[..8]);
    u64::from_le_bytes(bytes)
}
