//! Tokens become text one by one, though a letter may take several of them.

use super::{Kind, Tokenizer};

/// Decodes token by token and keeps back what is not yet a whole letter.
#[derive(Debug)]
pub struct Decoder<'a> {
    tokenizer: &'a Tokenizer,
    /// Bytes of a letter that has not ended.
    bytes: Vec<u8>,
    /// Tokens whose text may still change, after those that only give them context.
    ids: Vec<u32>,
    context: usize,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(tokenizer: &'a Tokenizer) -> Self {
        Self { tokenizer, bytes: Vec::new(), ids: Vec::new(), context: 0 }
    }

    /// The text that `id` completes: nothing while a letter has not ended.
    pub fn push(&mut self, id: u32) -> String {
        match &self.tokenizer.kind {
            Kind::Byte => {
                // What is no byte cannot come from a model that fits, and must not end sampling.
                match u8::try_from(id) {
                    Ok(byte) => self.bytes.push(byte),
                    Err(_) => self.bytes.extend_from_slice("\u{fffd}".as_bytes()),
                }
                self.whole_letters()
            }
            Kind::HuggingFace(_) => {
                self.ids.push(id);
                let text = self.new_text();
                if text.ends_with('\u{fffd}') && self.ids.len() - self.context < LETTER {
                    return String::new();
                }
                if !text.is_empty() {
                    // One settled token stays as context: some decoders drop the space before
                    // the first token they see.
                    self.ids.drain(..self.ids.len() - 1);
                    self.context = 1;
                }
                text
            }
        }
    }

    /// The text of what was kept back.
    pub fn finish(mut self) -> String {
        match &self.tokenizer.kind {
            Kind::Byte => String::from_utf8_lossy(&std::mem::take(&mut self.bytes)).into_owned(),
            Kind::HuggingFace(_) => self.new_text(),
        }
    }

    /// What the tokens after the context add to its text.
    fn new_text(&self) -> String {
        let Kind::HuggingFace(tokenizer) = &self.tokenizer.kind else { return String::new() };
        let decode = |ids| tokenizer.decode(ids, true).unwrap_or_default();
        let known = decode(&self.ids[..self.context]);
        let all = decode(&self.ids);
        all.strip_prefix(&known).unwrap_or(&all).to_owned()
    }

    fn whole_letters(&mut self) -> String {
        let mut text = String::new();
        loop {
            match std::str::from_utf8(&self.bytes) {
                Ok(rest) => {
                    text.push_str(rest);
                    self.bytes.clear();
                    return text;
                }
                Err(error) => {
                    let valid: Vec<u8> = self.bytes.drain(..error.valid_up_to()).collect();
                    text.push_str(&String::from_utf8_lossy(&valid));
                    let Some(wrong) = error.error_len() else { return text };
                    self.bytes.drain(..wrong);
                    text.push('\u{fffd}');
                }
            }
        }
    }
}

/// Tokens after which a letter that is still not whole is given up: UTF-8 has at most four bytes.
const LETTER: usize = 8;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::small;
    use super::*;

    proptest! {
        #[test]
        fn text_comes_back_whole_and_in_whole_letters(text: String) {
            let tokenizer = Tokenizer::byte();
            let mut decoder = tokenizer.decoder();
            let mut back = String::new();
            for byte in text.bytes() {
                back.push_str(&decoder.push(u32::from(byte)));
                prop_assert!(text.starts_with(&back));
            }
            prop_assert_eq!(back + &decoder.finish(), text);
        }

        #[test]
        fn any_bytes_decode_as_they_would_at_once(bytes: Vec<u8>) {
            let ids: Vec<u32> = bytes.iter().map(|byte| u32::from(*byte)).collect();
            prop_assert_eq!(Tokenizer::byte().decode(&ids), String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn half_a_letter_waits_for_the_other_half() {
        let tokenizer = Tokenizer::byte();
        let mut decoder = tokenizer.decoder();
        assert_eq!(decoder.push(0xc3), "");
        assert_eq!(decoder.push(0xa9), "\u{e9}");
        assert_eq!(decoder.push(0xe2), "");
        assert_eq!(decoder.finish(), "\u{fffd}");
    }

    #[test]
    fn a_letter_of_two_tokens_comes_out_whole() {
        let json = r#"{
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
            "normalizer": null, "post_processor": null,
            "pre_tokenizer": { "type": "ByteLevel", "add_prefix_space": false,
                "trim_offsets": true, "use_regex": true },
            "decoder": { "type": "ByteLevel", "add_prefix_space": false,
                "trim_offsets": true, "use_regex": true },
            "model": { "type": "BPE", "dropout": null, "unk_token": null,
                "continuing_subword_prefix": null, "end_of_word_suffix": null,
                "fuse_unk": false, "byte_fallback": false,
                "vocab": { "\u00c3": 0, "\u00a9": 1, "a": 2, "\u0120": 3 }, "merges": [] }
        }"#;
        let tokenizer = Tokenizer::from_json(json.as_bytes(), None).unwrap();
        let mut ids = Vec::new();
        tokenizer.encode("a \u{e9}a", &mut ids).unwrap();
        assert_eq!(ids, [2, 3, 0, 1, 2]);
        let mut decoder = tokenizer.decoder();
        let parts: Vec<String> = ids.iter().map(|id| decoder.push(*id)).collect();
        assert_eq!(parts, ["a", " ", "", "\u{e9}", "a"]);
        assert_eq!(decoder.push(0), "");
        assert_eq!(decoder.finish(), "\u{fffd}");
        assert_eq!(tokenizer.separator(), None);
    }

    #[test]
    fn words_keep_the_spaces_between_them() {
        let tokenizer = small();
        let mut decoder = tokenizer.decoder();
        let parts = [1, 2, 9, 1].map(|id| decoder.push(id));
        assert_eq!(parts, ["the", " cat", "", " the"]);
        assert_eq!(decoder.finish(), "");
    }
}
