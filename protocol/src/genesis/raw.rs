//! A genesis as TOML has it: every key optional, every number as wide as TOML's.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Raw {
    pub(super) name: Option<String>,
    pub(super) init_seed: Option<i64>,
    pub(super) init_content: Option<String>,
    pub(super) fragments: Option<i64>,
    pub(super) codec: Option<String>,
    pub(super) model: Option<WordOr<RawModel>>,
    pub(super) roster: Option<WordOr<RawRoster>>,
    pub(super) data: Option<RawData>,
    pub(super) schedule: Option<RawSchedule>,
    pub(super) inner: Option<RawInner>,
    pub(super) rounds: Option<RawRounds>,
    pub(super) outer: Option<RawOuter>,
    pub(super) merge: Option<RawMerge>,
    pub(super) tensor: Option<Vec<RawTensor>>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawModel {
    pub(super) preset: Option<String>,
    pub(super) vocab: Option<i64>,
    pub(super) width: Option<i64>,
    pub(super) layers: Option<i64>,
    pub(super) heads: Option<i64>,
    pub(super) kv_heads: Option<i64>,
    pub(super) hidden: Option<i64>,
    pub(super) context: Option<i64>,
    pub(super) tied: Option<bool>,
    pub(super) rope_theta: Option<f64>,
    pub(super) norm_epsilon: Option<f64>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRoster {
    pub(super) nodes: Option<Vec<String>>,
    pub(super) stewards: Option<Vec<String>>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawData {
    pub(super) tokenizer: Option<String>,
    pub(super) tokenizer_content: Option<String>,
    pub(super) corpus: Option<String>,
    pub(super) sequence: Option<i64>,
    pub(super) batch: Option<i64>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSchedule {
    pub(super) peak: Option<f64>,
    pub(super) warmup_tokens: Option<i64>,
    pub(super) total_tokens: Option<i64>,
    pub(super) floor_percent: Option<i64>,
    pub(super) shape: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawInner {
    pub(super) optimiser: Option<String>,
    pub(super) momentum: Option<f64>,
    pub(super) weight_decay: Option<f64>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRounds {
    pub(super) steps: Option<i64>,
    pub(super) steps_min: Option<i64>,
    pub(super) quorum_min: Option<i64>,
    pub(super) quorum_percent: Option<i64>,
    pub(super) grace_ms_min: Option<i64>,
    pub(super) grace_ms_max: Option<i64>,
    pub(super) horizon: Option<i64>,
    pub(super) alive_ms: Option<i64>,
    pub(super) forget_ms: Option<i64>,
    pub(super) heartbeat_ms: Option<i64>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawOuter {
    pub(super) learning_rate: Option<f64>,
    pub(super) momentum: Option<f64>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMerge {
    pub(super) rule: Option<String>,
    pub(super) weight_cap: Option<i64>,
    pub(super) clip: Option<f64>,
    pub(super) norm_max: Option<f64>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTensor {
    pub(super) name: Option<String>,
    pub(super) shape: Option<Vec<i64>>,
    pub(super) kind: Option<String>,
    pub(super) init: Option<WordOr<f64>>,
}

/// A word, or something that says more: `"nano"` or a table, `"zeros"` or a number.
///
/// Written by hand because serde's untagged enums forget which key was wrong.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum WordOr<T> {
    Word(String),
    Other(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for WordOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordOrVisitor(PhantomData))
    }
}

struct WordOrVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for WordOrVisitor<T> {
    type Value = WordOr<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a word, or the longer form of this key")
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<Self::Value, E> {
        Ok(WordOr::Word(word.into()))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Self::Value, E> {
        T::deserialize(de::value::I64Deserializer::new(value)).map(WordOr::Other)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Self::Value, E> {
        T::deserialize(de::value::F64Deserializer::new(value)).map(WordOr::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(WordOr::Other)
    }
}
