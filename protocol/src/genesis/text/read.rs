//! From TOML's values to a genesis: names become enums, numbers are narrowed, gaps are filled.

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};

use crate::genesis::bound;
use crate::genesis::check::check_shape;
use crate::genesis::error::GenesisError;
use crate::genesis::inner::MUON_MOMENTUM;
use crate::genesis::model::{NORM_EPSILON, ROPE_THETA};
use crate::genesis::raw::{
    Raw, RawData, RawInner, RawMerge, RawModel, RawOuter, RawRoster, RawRounds, RawSchedule,
    RawTensor, WordOr,
};
use crate::genesis::{
    DataSpec, Genesis, Init, Inner, InnerOptimiser, Merge, Model, Outer, PRESETS, RosterPolicy,
    Rounds, Schedule, TensorKind, TensorSpec,
};
use crate::id::{ContentId, NodeId};

/// The genesis that `raw` describes; relations between its values are not checked yet.
pub(super) fn genesis(raw: Raw) -> Result<Genesis, GenesisError> {
    let name = raw.name.ok_or_else(|| missing("name", "what people call the run"))?;
    let base = match (raw.model, raw.tensor) {
        (Some(model), None) => Genesis::new(&name, read_model(model)?),
        (None, Some(tensors)) => Genesis::custom(&name, read_tensors(tensors)?),
        (Some(_), Some(_)) => {
            let allowed = "only without a model";
            return Err(GenesisError::value("tensor", "a list", allowed));
        }
        (None, None) => {
            let presets = PRESETS.join(", ");
            let needed = format!("one of {presets}, a [model] table or [[tensor]] entries");
            return Err(missing("model", &needed));
        }
    };
    let inner = read_inner(raw.inner.unwrap_or_default())?;
    Ok(Genesis {
        init_seed: bound::INIT_SEED.read(raw.init_seed, base.init_seed)?,
        init_content: read_content("init_content", raw.init_content.as_deref())?,
        data: read_data(raw.data.unwrap_or_default(), base.data)?,
        schedule: read_schedule(raw.schedule.unwrap_or_default(), inner.optimiser)?,
        inner,
        fragments: bound::FRAGMENTS.read(raw.fragments, base.fragments)?,
        rounds: read_rounds(raw.rounds.unwrap_or_default())?,
        outer: read_outer(raw.outer.unwrap_or_default())?,
        merge: read_merge(raw.merge.unwrap_or_default())?,
        codec: read_word("codec", raw.codec.as_deref(), base.codec, CODECS)?,
        roster: raw.roster.map_or(Ok(base.roster), read_roster)?,
        name,
        model: base.model,
        tensors: base.tensors,
    })
}

fn read_model(raw: WordOr<RawModel>) -> Result<Model, GenesisError> {
    let raw = match raw {
        WordOr::Word(word) => return preset("model", &word),
        WordOr::Other(raw) => raw,
    };
    let base = raw.preset.as_deref().map(|word| preset("model.preset", word)).transpose()?;
    let raw = RawModel { preset: None, ..fill(raw, base) };
    let model = Model::Llama {
        vocab: bound::VOCAB.need(raw.vocab)?,
        width: bound::WIDTH.need(raw.width)?,
        layers: bound::LAYERS.need(raw.layers)?,
        heads: bound::HEADS.need(raw.heads)?,
        kv_heads: bound::KV_HEADS.need(raw.kv_heads.or(raw.heads))?,
        hidden: bound::HIDDEN.need(raw.hidden)?,
        context: bound::CONTEXT.need(raw.context)?,
        tied: raw.tied.unwrap_or(true),
        rope_theta: bound::ROPE_THETA.read(raw.rope_theta, ROPE_THETA)?,
        norm_epsilon: bound::NORM_EPSILON.read(raw.norm_epsilon, NORM_EPSILON)?,
    };
    check_shape(&model)?;
    Ok(model)
}

/// `raw` with its gaps filled from a preset.
fn fill(raw: RawModel, base: Option<Model>) -> RawModel {
    let Some(Model::Llama { vocab, width, layers, heads, kv_heads, hidden, context, tied, .. }) =
        base
    else {
        return raw;
    };
    let or = |value: Option<i64>, preset: u32| value.or(Some(i64::from(preset)));
    RawModel {
        vocab: or(raw.vocab, vocab),
        width: or(raw.width, width),
        layers: or(raw.layers, layers),
        // Who changes the heads means those of keys and values too, unless they say so.
        kv_heads: raw.kv_heads.or(raw.heads).or(Some(i64::from(kv_heads))),
        heads: or(raw.heads, heads),
        hidden: or(raw.hidden, hidden),
        context: or(raw.context, context),
        tied: raw.tied.or(Some(tied)),
        ..raw
    }
}

fn preset(key: &str, word: &str) -> Result<Model, GenesisError> {
    Model::preset(word).ok_or_else(|| GenesisError::text(key, word, PRESETS.join(", ")))
}

fn read_tensors(raw: Vec<RawTensor>) -> Result<Vec<TensorSpec>, GenesisError> {
    raw.into_iter().enumerate().map(|(index, raw)| read_tensor(index, raw)).collect()
}

fn read_tensor(index: usize, raw: RawTensor) -> Result<TensorSpec, GenesisError> {
    let key = |part: &str| format!("tensor[{index}].{part}");
    let name = raw.name.ok_or_else(|| missing(&key("name"), "a unique name"))?;
    let shape = raw.shape.ok_or_else(|| missing(&key("shape"), "a list of dimensions"))?;
    let narrow = |value: &i64| {
        let refuse = || GenesisError::value(key("shape"), value, format!("0..={}", u32::MAX));
        u32::try_from(*value).map_err(|_| refuse())
    };
    let shape: Vec<u32> = shape.iter().map(narrow).collect::<Result<_, _>>()?;
    let usual = if shape.len() > 1 { TensorKind::Matrix } else { TensorKind::Vector };
    let kind = read_word(&key("kind"), raw.kind.as_deref(), usual, KINDS)?;
    let init = match raw.init {
        None if kind == TensorKind::Vector => Init::Zeros,
        None => Init::Normal(INIT_STD),
        Some(WordOr::Other(std)) => Init::Normal(bound::INIT.read_at(&key("init"), std)?),
        Some(WordOr::Word(word)) => match word.as_str() {
            "zeros" => Init::Zeros,
            "ones" => Init::Ones,
            _ => {
                let allowed = "zeros, ones or a standard deviation";
                return Err(GenesisError::text(key("init"), &word, allowed));
            }
        },
    };
    Ok(TensorSpec { name, shape, kind, init })
}

fn read_data(raw: RawData, base: DataSpec) -> Result<DataSpec, GenesisError> {
    let content = raw.tokenizer_content.as_deref();
    Ok(DataSpec {
        tokenizer: raw.tokenizer.unwrap_or(base.tokenizer),
        tokenizer_content: read_content("data.tokenizer_content", content)?,
        corpus: raw.corpus.unwrap_or(base.corpus),
        sequence: bound::SEQUENCE.read(raw.sequence, base.sequence)?,
        batch: bound::BATCH.read(raw.batch, base.batch)?,
    })
}

fn read_schedule(raw: RawSchedule, optimiser: InnerOptimiser) -> Result<Schedule, GenesisError> {
    let base = Schedule::default();
    let total_tokens = bound::TOTAL_TOKENS.read(raw.total_tokens, base.total_tokens)?;
    Ok(Schedule {
        peak: bound::PEAK.read(raw.peak, optimiser.peak())?,
        // The default in proportion, so that a short run needs to say one number only.
        warmup_tokens: bound::WARMUP_TOKENS.read(raw.warmup_tokens, total_tokens / 100)?,
        total_tokens,
        floor_percent: bound::FLOOR_PERCENT.read(raw.floor_percent, base.floor_percent)?,
        shape: read_word("schedule.shape", raw.shape.as_deref(), base.shape, SHAPES)?,
    })
}

fn read_inner(raw: RawInner) -> Result<Inner, GenesisError> {
    let base = Inner::default();
    let word = raw.optimiser.as_deref().unwrap_or(base.optimiser.name());
    let optimiser = match (word, raw.momentum) {
        ("adamw", None) => InnerOptimiser::AdamW,
        ("adamw", Some(momentum)) => {
            // It would change the run's id and nothing else.
            let allowed = "only with inner.optimiser = \"muon\"";
            return Err(GenesisError::value(bound::INNER_MOMENTUM.key, momentum, allowed));
        }
        ("muon", momentum) => {
            let momentum = bound::INNER_MOMENTUM.read(momentum, MUON_MOMENTUM)?;
            InnerOptimiser::Muon { momentum }
        }
        _ => return Err(GenesisError::text("inner.optimiser", word, OPTIMISERS)),
    };
    let weight_decay = bound::WEIGHT_DECAY.read(raw.weight_decay, base.weight_decay)?;
    Ok(Inner { optimiser, weight_decay })
}

fn read_rounds(raw: RawRounds) -> Result<Rounds, GenesisError> {
    let base = Rounds::default();
    let steps: u32 = bound::STEPS.read(raw.steps, base.steps)?;
    let grace_ms_max: u64 = bound::GRACE_MS_MAX.read(raw.grace_ms_max, base.grace_ms_max)?;
    Ok(Rounds {
        steps,
        // The defaults in proportion, so that nobody has to know both ends to set one.
        steps_min: bound::STEPS_MIN.read(raw.steps_min, (steps / 8).max(1))?,
        quorum_min: bound::QUORUM_MIN.read(raw.quorum_min, base.quorum_min)?,
        quorum_percent: bound::QUORUM_PERCENT.read(raw.quorum_percent, base.quorum_percent)?,
        grace_ms_min: bound::GRACE_MS_MIN
            .read(raw.grace_ms_min, base.grace_ms_min.min(grace_ms_max))?,
        grace_ms_max,
        horizon: bound::HORIZON.read(raw.horizon, base.horizon)?,
        alive_ms: bound::ALIVE_MS.read(raw.alive_ms, base.alive_ms)?,
        forget_ms: bound::FORGET_MS.read(raw.forget_ms, base.forget_ms)?,
        heartbeat_ms: bound::HEARTBEAT_MS.read(raw.heartbeat_ms, base.heartbeat_ms)?,
    })
}

fn read_outer(raw: RawOuter) -> Result<Outer, GenesisError> {
    let base = Outer::default();
    Ok(Outer {
        learning_rate: bound::LEARNING_RATE.read(raw.learning_rate, base.learning_rate)?,
        momentum: bound::MOMENTUM.read(raw.momentum, base.momentum)?,
    })
}

fn read_merge(raw: RawMerge) -> Result<Merge, GenesisError> {
    let base = Merge::default();
    Ok(Merge {
        rule: read_word("merge.rule", raw.rule.as_deref(), base.rule, RULES)?,
        weight_cap: bound::WEIGHT_CAP.read(raw.weight_cap, base.weight_cap)?,
        clip: bound::CLIP.read(raw.clip, base.clip)?,
        norm_max: bound::NORM_MAX.read(raw.norm_max, base.norm_max)?,
    })
}

fn read_roster(raw: WordOr<RawRoster>) -> Result<RosterPolicy, GenesisError> {
    let raw = match raw {
        WordOr::Word(word) if word == "open" => return Ok(RosterPolicy::Open),
        WordOr::Word(word) => {
            let allowed = "open, or a table with nodes or stewards";
            return Err(GenesisError::text("roster", &word, allowed));
        }
        WordOr::Other(raw) => raw,
    };
    let stewards = read_nodes("roster.stewards", raw.stewards.unwrap_or_default())?;
    match raw.nodes {
        Some(nodes) => {
            Ok(RosterPolicy::Closed { nodes: read_nodes("roster.nodes", nodes)?, stewards })
        }
        None => Ok(RosterPolicy::Invite { stewards }),
    }
}

fn read_nodes(key: &str, raw: Vec<String>) -> Result<Vec<NodeId>, GenesisError> {
    let read = |hex: String| read_hex(key, &hex).map(NodeId);
    let mut nodes = raw.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
    nodes.sort_unstable();
    Ok(nodes)
}

fn read_content(key: &str, raw: Option<&str>) -> Result<Option<ContentId>, GenesisError> {
    raw.map(|hex| read_hex(key, hex).map(ContentId)).transpose()
}

fn read_hex(key: &str, hex: &str) -> Result<[u8; 32], GenesisError> {
    let refuse = || GenesisError::text(key, hex, "64 hexadecimal digits");
    let digits = hex.chars().map(|digit| digit.to_digit(16).and_then(|d| u8::try_from(d).ok()));
    let digits: Vec<u8> = digits.collect::<Option<_>>().ok_or_else(refuse)?;
    let (pairs, odd) = digits.as_chunks::<2>();
    let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    if odd.is_empty() { bytes.try_into().map_err(|_| refuse()) } else { Err(refuse()) }
}

/// The enum value that `raw` names, or `default`.
fn read_word<'a, T: Deserialize<'a>>(
    key: &str,
    raw: Option<&'a str>,
    default: T,
    allowed: &str,
) -> Result<T, GenesisError> {
    let Some(word) = raw else { return Ok(default) };
    let deserializer: StrDeserializer<'a, Error> = word.into_deserializer();
    T::deserialize(deserializer).map_err(|_| GenesisError::text(key, word, allowed))
}

fn missing(key: &str, needed: &str) -> GenesisError {
    GenesisError::Missing { key: key.into(), needed: needed.into() }
}

/// Standard deviation of a matrix that does not say.
const INIT_STD: f32 = 0.02;
const CODECS: &str = "f32, int8, int4, low, sparse";
const KINDS: &str = "matrix, embedding, vector";
const OPTIMISERS: &str = "adamw, muon";
const RULES: &str = "mean, rda, trimmed-mean, centered-clip";
const SHAPES: &str = "cosine, linear, constant";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Codec;
    use crate::genesis::{MergeRule, ScheduleShape};

    fn read<'a, T: Deserialize<'a>>(words: &'a str) -> Vec<T> {
        words
            .split(", ")
            .map(|word| T::deserialize(IntoDeserializer::<Error>::into_deserializer(word)).unwrap())
            .collect()
    }

    #[test]
    fn every_word_that_errors_offer_is_known() {
        assert_eq!(read::<Codec>(CODECS).len(), 5);
        assert_eq!(read::<TensorKind>(KINDS).len(), 3);
        assert_eq!(read::<MergeRule>(RULES).len(), 4);
        assert_eq!(read::<ScheduleShape>(SHAPES).len(), 3);
        for word in OPTIMISERS.split(", ") {
            let raw = RawInner { optimiser: Some(word.into()), ..RawInner::default() };
            assert_eq!(read_inner(raw).unwrap().optimiser.name(), word);
        }
    }

    #[test]
    fn hex_is_exact() {
        let hex = "0aFF".repeat(16);
        assert_eq!(read_hex("k", &hex).unwrap()[..2], [0x0a, 0xff]);
        for bad in ["", "0", &hex[1..], &"0".repeat(65), &"0".repeat(66), &"\u{e9}".repeat(32)] {
            assert!(read_hex("k", bad).is_err(), "{bad}");
        }
    }
}
