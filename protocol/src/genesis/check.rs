//! What every genesis must satisfy, whether it came as TOML or as bytes.

use super::bound::{self, Whole};
use super::error::GenesisError;
use super::{Genesis, Init, InnerOptimiser, Model, RosterPolicy, TensorSpec};
use crate::id::NodeId;
use crate::limits::{FRAGMENT_ELEMENTS_MAX, GENESIS_BYTES_MAX, ROUND_AUTHORS_MAX, TENSORS_MAX};

impl Genesis {
    /// Refuses values that no run may have, naming the first one and what is allowed.
    pub fn validate(&self) -> Result<(), GenesisError> {
        check_name(&self.name)?;
        self.check_model()?;
        self.check_tensors()?;
        bound::INIT_SEED.check(self.init_seed)?;
        self.check_data()?;
        self.check_schedule()?;
        self.check_inner()?;
        self.check_fragments()?;
        self.check_rounds()?;
        bound::LEARNING_RATE.check(self.outer.learning_rate)?;
        bound::MOMENTUM.check(self.outer.momentum)?;
        bound::WEIGHT_CAP.check(self.merge.weight_cap)?;
        bound::CLIP.check(self.merge.clip)?;
        bound::NORM_MAX.check(self.merge.norm_max)?;
        self.check_roster()?;
        let bytes = self.to_bytes().len();
        if bytes > GENESIS_BYTES_MAX {
            let allowed = format!("at most {GENESIS_BYTES_MAX}");
            return Err(GenesisError::value("bytes of the genesis", bytes, allowed));
        }
        Ok(())
    }

    fn check_model(&self) -> Result<(), GenesisError> {
        check_shape(&self.model)?;
        if self.model != Model::Custom && self.tensors != self.model.tensors() {
            let allowed = "only the tensors that follow from the model";
            return Err(GenesisError::value("tensors", self.tensors.len(), allowed));
        }
        Ok(())
    }

    fn check_tensors(&self) -> Result<(), GenesisError> {
        let count = self.tensors.len();
        if !(1..=TENSORS_MAX).contains(&count) {
            return Err(GenesisError::value("tensors", count, format!("1..={TENSORS_MAX}")));
        }
        for (index, tensor) in self.tensors.iter().enumerate() {
            check_tensor(index, tensor)?;
        }
        for (index, pair) in self.tensors.windows(2).enumerate() {
            if pair[0].name >= pair[1].name {
                let key = format!("tensor[{}].name", index + 1);
                let allowed = format!("a name after {:?}", pair[0].name);
                return Err(GenesisError::text(key, &pair[1].name, allowed));
            }
        }
        Ok(())
    }

    fn check_data(&self) -> Result<(), GenesisError> {
        check_word("data.tokenizer", &self.data.tokenizer)?;
        check_word("data.corpus", &self.data.corpus)?;
        bound::SEQUENCE.check(self.data.sequence)?;
        bound::BATCH.check(self.data.batch)?;
        if let Model::Llama { vocab, context, .. } = self.model {
            at_most(&bound::SEQUENCE, self.data.sequence, "model.context", context)?;
            if self.data.tokenizer == "byte" && vocab < BYTE_VOCAB {
                let allowed = format!("at least {BYTE_VOCAB} with data.tokenizer \"byte\"");
                return Err(GenesisError::value(bound::VOCAB.key, vocab, allowed));
            }
        }
        Ok(())
    }

    fn check_schedule(&self) -> Result<(), GenesisError> {
        let schedule = &self.schedule;
        bound::PEAK.check(schedule.peak)?;
        bound::WARMUP_TOKENS.check(schedule.warmup_tokens)?;
        bound::TOTAL_TOKENS.check(schedule.total_tokens)?;
        bound::FLOOR_PERCENT.check(schedule.floor_percent)?;
        let (warmup, total) = (schedule.warmup_tokens, schedule.total_tokens);
        at_most(&bound::WARMUP_TOKENS, warmup, bound::TOTAL_TOKENS.key, total)
    }

    fn check_inner(&self) -> Result<(), GenesisError> {
        bound::WEIGHT_DECAY.check(self.inner.weight_decay)?;
        match self.inner.optimiser {
            InnerOptimiser::AdamW => Ok(()),
            InnerOptimiser::Muon { momentum } => bound::INNER_MOMENTUM.check(momentum),
        }
    }

    fn check_fragments(&self) -> Result<(), GenesisError> {
        bound::FRAGMENTS.check(self.fragments)?;
        let tensors = self.tensors.len();
        if usize::from(self.fragments) > tensors {
            let allowed = format!("at most the number of tensors ({tensors})");
            return Err(GenesisError::value(bound::FRAGMENTS.key, self.fragments, allowed));
        }
        let map = self.fragment_map();
        let heaviest = map.fragments().iter().map(|fragment| fragment.elements).max();
        if heaviest.is_some_and(|elements| elements > FRAGMENT_ELEMENTS_MAX) {
            let allowed = format!("enough for at most {FRAGMENT_ELEMENTS_MAX} parameters in each");
            return Err(GenesisError::value(bound::FRAGMENTS.key, self.fragments, allowed));
        }
        Ok(())
    }

    fn check_rounds(&self) -> Result<(), GenesisError> {
        let rounds = &self.rounds;
        bound::STEPS.check(rounds.steps)?;
        bound::STEPS_MIN.check(rounds.steps_min)?;
        bound::QUORUM_MIN.check(rounds.quorum_min)?;
        bound::QUORUM_PERCENT.check(rounds.quorum_percent)?;
        bound::GRACE_MS_MIN.check(rounds.grace_ms_min)?;
        bound::GRACE_MS_MAX.check(rounds.grace_ms_max)?;
        bound::HORIZON.check(rounds.horizon)?;
        bound::ALIVE_MS.check(rounds.alive_ms)?;
        bound::FORGET_MS.check(rounds.forget_ms)?;
        bound::HEARTBEAT_MS.check(rounds.heartbeat_ms)?;
        at_most(&bound::STEPS_MIN, rounds.steps_min, bound::STEPS.key, rounds.steps)?;
        let (grace_min, grace_max) = (rounds.grace_ms_min, rounds.grace_ms_max);
        at_most(&bound::GRACE_MS_MIN, grace_min, bound::GRACE_MS_MAX.key, grace_max)?;
        at_most(&bound::ALIVE_MS, rounds.alive_ms, bound::FORGET_MS.key, rounds.forget_ms)?;
        if rounds.heartbeat_ms * 2 > rounds.alive_ms {
            let allowed = format!("at most half of rounds.alive_ms ({})", rounds.alive_ms);
            return Err(GenesisError::value(bound::HEARTBEAT_MS.key, rounds.heartbeat_ms, allowed));
        }
        Ok(())
    }

    fn check_roster(&self) -> Result<(), GenesisError> {
        match &self.roster {
            RosterPolicy::Open => Ok(()),
            RosterPolicy::Closed { nodes, stewards } => {
                check_nodes("roster.nodes", nodes, 1, ROUND_AUTHORS_MAX)?;
                check_nodes("roster.stewards", stewards, 0, STEWARDS_MAX)
            }
            RosterPolicy::Invite { stewards } => {
                check_nodes("roster.stewards", stewards, 1, STEWARDS_MAX)
            }
        }
    }
}

/// Refuses a shape that is out of range or does not divide evenly. Must come before
/// [`Model::tensors`], whose length it bounds.
pub(super) fn check_shape(model: &Model) -> Result<(), GenesisError> {
    let Model::Llama { vocab, width, layers, heads, kv_heads, hidden, context, .. } = *model else {
        return Ok(());
    };
    bound::VOCAB.check(vocab)?;
    bound::WIDTH.check(width)?;
    bound::LAYERS.check(layers)?;
    bound::HEADS.check(heads)?;
    bound::KV_HEADS.check(kv_heads)?;
    bound::HIDDEN.check(hidden)?;
    bound::CONTEXT.check(context)?;
    if let Model::Llama { rope_theta, norm_epsilon, .. } = *model {
        bound::ROPE_THETA.check(rope_theta)?;
        bound::NORM_EPSILON.check(norm_epsilon)?;
    }
    // Rotary positions turn a head's values in pairs.
    if !width.is_multiple_of(heads * 2) {
        let allowed = format!("a number that divides model.width ({width}) into even parts");
        return Err(GenesisError::value(bound::HEADS.key, heads, allowed));
    }
    if !heads.is_multiple_of(kv_heads) {
        let allowed = format!("a divisor of model.heads ({heads})");
        return Err(GenesisError::value(bound::KV_HEADS.key, kv_heads, allowed));
    }
    Ok(())
}

fn check_tensor(index: usize, tensor: &TensorSpec) -> Result<(), GenesisError> {
    let name = &tensor.name;
    let graphic = name.bytes().all(|byte| byte.is_ascii_graphic());
    if !(1..=TENSOR_NAME_BYTES_MAX).contains(&name.len()) || !graphic {
        let allowed = format!("1..={TENSOR_NAME_BYTES_MAX} visible ASCII characters");
        return Err(GenesisError::text(format!("tensor[{index}].name"), name, allowed));
    }
    let shape = &tensor.shape;
    let elements = tensor.elements();
    if !(1..=RANK_MAX).contains(&shape.len()) || !(1..=FRAGMENT_ELEMENTS_MAX).contains(&elements) {
        let shown = &shape[..shape.len().min(RANK_MAX + 1)];
        let allowed =
            format!("1..={RANK_MAX} dimensions with 1..={FRAGMENT_ELEMENTS_MAX} parameters");
        let key = format!("tensor[{index}].shape");
        return Err(GenesisError::value(key, format_args!("{shown:?}"), allowed));
    }
    match tensor.init {
        Init::Zeros | Init::Ones => Ok(()),
        Init::Normal(std) => bound::INIT.check_at(&format!("tensor[{index}].init"), std),
    }
}

/// A run's name is shown in terminals and web pages, so it has nothing invisible in it.
fn check_name(name: &str) -> Result<(), GenesisError> {
    let visible = |c: char| c.is_ascii_graphic() || c.is_alphanumeric() || c == ' ';
    let length = name.chars().take(NAME_CHARS_MAX + 1).count();
    if (1..=NAME_CHARS_MAX).contains(&length) && name.trim() == name && name.chars().all(visible) {
        return Ok(());
    }
    let allowed = format!("1..={NAME_CHARS_MAX} visible characters, spaces only between them");
    Err(GenesisError::text("name", name, allowed))
}

fn check_word(key: &str, word: &str) -> Result<(), GenesisError> {
    let graphic = word.bytes().all(|byte| byte.is_ascii_graphic());
    if (1..=WORD_BYTES_MAX).contains(&word.len()) && graphic {
        return Ok(());
    }
    let allowed = format!("1..={WORD_BYTES_MAX} visible ASCII characters");
    Err(GenesisError::text(key, word, allowed))
}

fn check_nodes(key: &str, nodes: &[NodeId], low: usize, high: usize) -> Result<(), GenesisError> {
    if !(low..=high).contains(&nodes.len()) {
        let value = format_args!("a list of {}", nodes.len());
        return Err(GenesisError::value(key, value, format!("{low}..={high} keys")));
    }
    match nodes.windows(2).find(|pair| pair[0] >= pair[1]) {
        Some(pair) => Err(GenesisError::text(key, &pair[1].to_hex(), "ascending keys, each once")),
        None => Ok(()),
    }
}

/// Refuses a value above another one of the genesis, which stands at `other`.
fn at_most<T: Ord + std::fmt::Display>(
    bound: &Whole,
    value: T,
    other: &str,
    high: T,
) -> Result<(), GenesisError> {
    if value <= high {
        return Ok(());
    }
    Err(GenesisError::value(bound.key, value, format!("at most {other} ({high})")))
}

/// Characters of a run's name: one line of a terminal has room for it.
const NAME_CHARS_MAX: usize = 64;
/// Bytes of a tensor's name: deep module paths are well below.
const TENSOR_NAME_BYTES_MAX: usize = 128;
/// Bytes of a tokenizer's or corpus' name.
const WORD_BYTES_MAX: usize = 256;
/// Dimensions of a tensor.
const RANK_MAX: usize = 8;
/// Stewards of a roster: each is a key that somebody has to keep safe.
const STEWARDS_MAX: usize = 64;
/// Tokens of the byte tokenizer.
const BYTE_VOCAB: u32 = 256;
