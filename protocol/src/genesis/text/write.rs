//! From a genesis to TOML's values.

use serde::Serialize;

use crate::genesis::raw::{
    Raw, RawData, RawInner, RawMerge, RawModel, RawOuter, RawRoster, RawRounds, RawSchedule,
    RawTensor, WordOr,
};
use crate::genesis::{Genesis, Init, Inner, InnerOptimiser, Model, RosterPolicy, TensorSpec};
use crate::id::NodeId;

/// `genesis` with nothing left to defaults: those of another release may differ.
pub(super) fn raw(genesis: &Genesis) -> Raw {
    let (rounds, schedule, data) = (&genesis.rounds, &genesis.schedule, &genesis.data);
    Raw {
        name: Some(genesis.name.clone()),
        init_seed: Some(wide(genesis.init_seed)),
        init_content: genesis.init_content.map(|id| id.to_hex()),
        fragments: Some(genesis.fragments.into()),
        codec: Some(word(&genesis.codec)),
        model: raw_model(&genesis.model).map(WordOr::Other),
        roster: Some(raw_roster(&genesis.roster)),
        data: Some(RawData {
            tokenizer: Some(data.tokenizer.clone()),
            tokenizer_content: data.tokenizer_content.map(|id| id.to_hex()),
            corpus: Some(data.corpus.clone()),
            sequence: Some(data.sequence.into()),
            batch: Some(data.batch.into()),
        }),
        schedule: Some(RawSchedule {
            peak: Some(real(schedule.peak)),
            warmup_tokens: Some(wide(schedule.warmup_tokens)),
            total_tokens: Some(wide(schedule.total_tokens)),
            floor_percent: Some(schedule.floor_percent.into()),
            shape: Some(word(&schedule.shape)),
        }),
        inner: Some(raw_inner(&genesis.inner)),
        rounds: Some(RawRounds {
            steps: Some(rounds.steps.into()),
            steps_min: Some(rounds.steps_min.into()),
            quorum_min: Some(rounds.quorum_min.into()),
            quorum_percent: Some(rounds.quorum_percent.into()),
            grace_ms_min: Some(wide(rounds.grace_ms_min)),
            grace_ms_max: Some(wide(rounds.grace_ms_max)),
            horizon: Some(rounds.horizon.into()),
            alive_ms: Some(wide(rounds.alive_ms)),
            forget_ms: Some(wide(rounds.forget_ms)),
            heartbeat_ms: Some(wide(rounds.heartbeat_ms)),
        }),
        outer: Some(RawOuter {
            learning_rate: Some(real(genesis.outer.learning_rate)),
            momentum: Some(real(genesis.outer.momentum)),
        }),
        merge: Some(RawMerge {
            rule: Some(word(&genesis.merge.rule)),
            weight_cap: Some(genesis.merge.weight_cap.into()),
            clip: Some(real(genesis.merge.clip)),
            norm_max: Some(real(genesis.merge.norm_max)),
        }),
        tensor: (genesis.model == Model::Custom)
            .then(|| genesis.tensors.iter().map(raw_tensor).collect()),
    }
}

fn raw_model(model: &Model) -> Option<RawModel> {
    let Model::Llama {
        vocab,
        width,
        layers,
        heads,
        kv_heads,
        hidden,
        context,
        tied,
        rope_theta,
        norm_epsilon,
    } = *model
    else {
        return None;
    };
    Some(RawModel {
        preset: None,
        vocab: Some(vocab.into()),
        width: Some(width.into()),
        layers: Some(layers.into()),
        heads: Some(heads.into()),
        kv_heads: Some(kv_heads.into()),
        hidden: Some(hidden.into()),
        context: Some(context.into()),
        tied: Some(tied),
        rope_theta: Some(real(rope_theta)),
        norm_epsilon: Some(real(norm_epsilon)),
    })
}

fn raw_inner(inner: &Inner) -> RawInner {
    let momentum = match inner.optimiser {
        InnerOptimiser::AdamW => None,
        InnerOptimiser::Muon { momentum } => Some(real(momentum)),
    };
    RawInner {
        optimiser: Some(inner.optimiser.name().into()),
        momentum,
        weight_decay: Some(real(inner.weight_decay)),
    }
}

fn raw_roster(roster: &RosterPolicy) -> WordOr<RawRoster> {
    let hex = |nodes: &[NodeId]| Some(nodes.iter().map(|node| node.to_hex()).collect());
    match roster {
        RosterPolicy::Open => WordOr::Word("open".into()),
        RosterPolicy::Closed { nodes, stewards } => {
            WordOr::Other(RawRoster { nodes: hex(nodes), stewards: hex(stewards) })
        }
        RosterPolicy::Invite { stewards } => {
            WordOr::Other(RawRoster { nodes: None, stewards: hex(stewards) })
        }
    }
}

fn raw_tensor(tensor: &TensorSpec) -> RawTensor {
    RawTensor {
        name: Some(tensor.name.clone()),
        shape: Some(tensor.shape.iter().map(|&dimension| dimension.into()).collect()),
        kind: Some(word(&tensor.kind)),
        init: Some(match tensor.init {
            Init::Zeros => WordOr::Word("zeros".into()),
            Init::Ones => WordOr::Word("ones".into()),
            Init::Normal(std) => WordOr::Other(real(std)),
        }),
    }
}

/// The name of an enum's value, as serde has it.
fn word<T: Serialize>(value: &T) -> String {
    match toml::Value::try_from(value) {
        Ok(toml::Value::String(word)) => word,
        _ => unreachable!("an enum without fields is a word"),
    }
}

/// A valid genesis has no number that TOML cannot hold; an invalid one is refused when read.
fn wide(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The number that prints as people write it (0.3, not 0.300000012), if it reads back the same.
fn real(value: f32) -> f64 {
    let short = value.to_string().parse().unwrap_or(f64::NAN);
    #[expect(clippy::cast_possible_truncation, reason = "this is what reading does")]
    let same = short as f32 == value;
    if same { short } else { f64::from(value) }
}
