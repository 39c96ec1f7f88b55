//! How text becomes tokens, and tokens text.

mod decoder;
mod files;

use std::path::Path;

use serde_json::Value;

pub use decoder::Decoder;
pub use files::{TOKENIZER, TOKENIZER_CONFIG, TokenizerFiles};

use super::DataError;

/// How text becomes tokens: bytes, or a Hugging Face `tokenizer.json`.
#[derive(Debug)]
pub struct Tokenizer {
    kind: Kind,
    vocab: u32,
    separator: Option<u32>,
    digest: [u8; 32],
}

#[derive(Debug)]
enum Kind {
    Byte,
    HuggingFace(Box<tokenizers::Tokenizer>),
}

impl Tokenizer {
    /// Every byte is a token; byte 0, which no text needs, stands between documents.
    pub fn byte() -> Self {
        let digest = *blake3::hash(b"atoll byte tokenizer v1").as_bytes();
        Self { kind: Kind::Byte, vocab: 256, separator: Some(0), digest }
    }

    /// Reads a `tokenizer.json`. A `tokenizer_config.json` beside it says which token ends a
    /// text; without one, the usual names are tried.
    pub fn from_file(path: &Path) -> Result<Self, DataError> {
        TokenizerFiles::read(path)?.tokenizer()
    }

    /// How many tokens it has: one more than the highest id.
    pub fn vocab(&self) -> u32 {
        self.vocab
    }

    /// Refuses a model that does not know all the tokens.
    pub fn check_fits(&self, vocab: u32) -> Result<(), DataError> {
        match self.vocab.checked_sub(1) {
            Some(id) if id >= vocab => Err(DataError::Vocabulary { id, vocab }),
            _ => Ok(()),
        }
    }

    /// The token between two documents, if there is one.
    pub fn separator(&self) -> Option<u32> {
        self.separator
    }

    /// A hash of all that decides how text becomes tokens.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// Appends the tokens of `text`.
    pub fn encode(&self, text: &str, into: &mut Vec<u32>) -> Result<(), DataError> {
        match &self.kind {
            Kind::Byte => into.extend(text.bytes().map(u32::from)),
            Kind::HuggingFace(tokenizer) => {
                let encoding = tokenizer.encode_fast(text, false).map_err(refused)?;
                into.extend_from_slice(encoding.get_ids());
            }
        }
        Ok(())
    }

    /// Appends the tokens of many texts, with a separator after those that end a document, on as
    /// many cores as the library likes.
    pub(super) fn encode_all(
        &self,
        texts: &[(String, bool)],
        into: &mut Vec<u32>,
    ) -> Result<(), DataError> {
        let Kind::HuggingFace(tokenizer) = &self.kind else {
            for (text, last) in texts {
                into.extend(text.bytes().map(u32::from));
                into.extend(self.separator.filter(|_| *last));
            }
            return Ok(());
        };
        let inputs: Vec<&str> = texts.iter().map(|(text, _)| text.as_str()).collect();
        let encoded = tokenizer.encode_batch_fast(inputs, false).map_err(refused)?;
        for (encoding, (_, last)) in encoded.iter().zip(texts) {
            into.extend_from_slice(encoding.get_ids());
            into.extend(self.separator.filter(|_| *last));
        }
        Ok(())
    }

    /// The text of `ids`, as well as it can be told: what is no text becomes U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut decoder = self.decoder();
        let mut text: String = ids.iter().map(|id| decoder.push(*id)).collect();
        text.push_str(&decoder.finish());
        text
    }

    /// Decodes token by token, as sampling makes them.
    pub fn decoder(&self) -> Decoder<'_> {
        Decoder::new(self)
    }

    fn from_json(bytes: &[u8], config: Option<&[u8]>) -> Result<Self, String> {
        let mut tokenizer =
            tokenizers::Tokenizer::from_bytes(bytes).map_err(|error| error.to_string())?;
        // Some files cut or fill texts to the length that their own model wants.
        tokenizer.with_truncation(None).map_err(|error| error.to_string())?;
        tokenizer.with_padding(None);
        // Text that spells a special token must not become one: it could forge a separator.
        tokenizer.set_encode_special_tokens(true);
        let highest = tokenizer.get_vocab(true).into_values().max();
        let vocab = highest.ok_or("it has no tokens")?.saturating_add(1);
        let named = config.and_then(end_of_text);
        let separator = named
            .as_deref()
            .into_iter()
            .chain(ENDS_OF_TEXT)
            .find_map(|name| tokenizer.token_to_id(name));
        let mut hasher = blake3::Hasher::new();
        hasher.update(bytes);
        hasher.update(&separator.map_or(u64::MAX, u64::from).to_le_bytes());
        let digest = *hasher.finalize().as_bytes();
        Ok(Self { kind: Kind::HuggingFace(Box::new(tokenizer)), vocab, separator, digest })
    }
}

/// What a `tokenizer_config.json` calls the end of a text.
fn end_of_text(config: &[u8]) -> Option<String> {
    let config: Value = serde_json::from_slice(config).ok()?;
    let token = config.get("eos_token")?;
    token.as_str().or_else(|| token.get("content")?.as_str()).map(str::to_owned)
}

fn refused(error: tokenizers::Error) -> DataError {
    DataError::Encode { reason: error.to_string() }
}

/// What tokenizers usually call the end of a text.
const ENDS_OF_TEXT: [&str; 7] =
    ["<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eos|>", "<|im_end|>", "[SEP]"];

#[cfg(test)]
mod tests {
    use super::*;

    /// Words and letters, with an end of text and a hole in its numbers.
    pub(super) fn small() -> Tokenizer {
        Tokenizer::from_json(SMALL.as_bytes(), None).unwrap()
    }

    #[test]
    fn bytes_are_tokens() {
        let tokenizer = Tokenizer::byte();
        let mut ids = Vec::new();
        tokenizer.encode("a\u{e9}", &mut ids).unwrap();
        assert_eq!(ids, [97, 0xc3, 0xa9]);
        assert_eq!(tokenizer.decode(&ids), "a\u{e9}");
        assert_eq!((tokenizer.vocab(), tokenizer.separator()), (256, Some(0)));
    }

    #[test]
    fn a_tokenizer_file_encodes_whole_texts() {
        let tokenizer = small();
        let mut ids = Vec::new();
        tokenizer.encode("the cat the dog the cat", &mut ids).unwrap();
        assert_eq!(ids, [1, 2, 1, 0, 1, 2], "neither cut nor filled");
        assert_eq!(tokenizer.decode(&[1, 2]), "the cat");
        assert_eq!((tokenizer.vocab(), tokenizer.separator()), (10, Some(9)));
        let texts = [("the cat".to_owned(), true), ("cat".to_owned(), false)];
        ids.clear();
        tokenizer.encode_all(&texts, &mut ids).unwrap();
        assert_eq!(ids, [1, 2, 9, 2]);
    }

    #[test]
    fn text_cannot_forge_a_separator() {
        let mut ids = Vec::new();
        small().encode("cat</s>", &mut ids).unwrap();
        assert!(!ids.contains(&9), "{ids:?}");
    }

    #[test]
    fn the_config_names_the_end_of_text() {
        for config in [r#"{"eos_token": "cat"}"#, r#"{"eos_token": {"content": "cat"}}"#] {
            let tokenizer = Tokenizer::from_json(SMALL.as_bytes(), Some(config.as_bytes()));
            let tokenizer = tokenizer.unwrap();
            assert_eq!(tokenizer.separator(), Some(2));
            assert_ne!(tokenizer.digest(), small().digest());
        }
    }

    #[test]
    fn a_model_must_know_every_token() {
        let error = small().check_fits(9).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the tokenizer has the token id 9, but the model's vocabulary is 9"
        );
        small().check_fits(10).unwrap();
        assert!(Tokenizer::byte().check_fits(255).is_err());
    }

    pub(super) const SMALL: &str = r#"{
        "version": "1.0",
        "truncation": { "direction": "Right", "max_length": 3, "strategy": "LongestFirst",
            "stride": 0 },
        "padding": { "strategy": { "Fixed": 8 }, "direction": "Right",
            "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "?" },
        "added_tokens": [{ "id": 9, "content": "</s>", "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false, "special": true }],
        "normalizer": null,
        "pre_tokenizer": { "type": "WhitespaceSplit" },
        "post_processor": null,
        "decoder": null,
        "model": { "type": "WordLevel", "vocab": { "?": 0, "the": 1, "cat": 2, "</s>": 9 },
            "unk_token": "?" }
    }"#;
}
