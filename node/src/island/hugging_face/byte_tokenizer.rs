//! The byte tokenizer in the form that Hugging Face's `tokenizers` loads.

use serde_json::{Map, Value, json};

/// `tokenizer.json` in which every byte is the token of its value.
///
/// Byte-level files spell bytes as printable characters, GPT-2's way; without merges nothing
/// else becomes a token.
pub(super) fn tokenizer() -> Value {
    let vocab: Map<String, Value> = spelling()
        .into_iter()
        .enumerate()
        .map(|(byte, it)| (it.to_string(), json!(byte)))
        .collect();
    let level = json!({
        "type": "ByteLevel",
        "add_prefix_space": false,
        "trim_offsets": false,
        "use_regex": false,
    });
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [],
        "normalizer": null,
        "pre_tokenizer": level,
        "post_processor": null,
        "decoder": level,
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            "ignore_merges": false,
            "vocab": vocab,
            "merges": [],
        },
    })
}

/// `tokenizer_config.json` that goes with it.
pub(super) fn settings(context: u32) -> Value {
    json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context,
        "clean_up_tokenization_spaces": false,
    })
}

/// How each byte is spelt: printable Latin-1 as itself, the others from U+0100 on.
fn spelling() -> [char; 256] {
    let mut next = 0x100;
    std::array::from_fn(|byte| {
        let byte = u8::try_from(byte).expect("there are 256 bytes");
        if matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF) {
            return char::from(byte);
        }
        next += 1;
        char::from_u32(next - 1).expect("fewer than 256 characters from U+0100 on are all valid")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_spelt_once() {
        let spelling = spelling();
        assert_eq!(spelling[usize::from(b' ')], '\u{120}');
        assert_eq!(spelling[usize::from(b'\n')], '\u{10a}');
        assert_eq!(spelling[0xAD], '\u{143}');
        let mut sorted = spelling.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 256);
        assert_eq!(tokenizer()["model"]["vocab"]["A"], 65);
    }
}
