//! What the islands train on.

use serde::{Deserialize, Serialize};

use crate::id::ContentId;

/// What the islands train on: the part that makes their tokens and losses comparable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSpec {
    /// How text becomes tokens.
    ///
    /// Default `byte`: needs no file and works with any vocabulary of at least 256.
    pub tokenizer: String,
    /// The tokenizer's file, if it has one.
    pub tokenizer_content: Option<ContentId>,
    /// Where the text comes from.
    ///
    /// Default `generated`: a run can be tried without a download.
    pub corpus: String,
    /// Tokens in a sequence.
    ///
    /// Default: the model's context, or 128 if the model does not say.
    pub sequence: u32,
    /// Sequences in a step of one island.
    ///
    /// Default 8: fits a laptop's memory with every small preset.
    pub batch: u32,
}

impl Default for DataSpec {
    fn default() -> Self {
        Self {
            tokenizer: "byte".into(),
            tokenizer_content: None,
            corpus: "generated".into(),
            sequence: 128,
            batch: 8,
        }
    }
}
