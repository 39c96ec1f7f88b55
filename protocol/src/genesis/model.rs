//! The model's shape, from which its tensors follow.

use serde::{Deserialize, Serialize};

use super::tensor::{Init, TensorKind, TensorSpec};

/// The model's shape, from which its tensors follow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Model {
    /// A decoder in the manner of Llama; tensors are named as in Hugging Face's
    /// `LlamaForCausalLM`, so that its files load without a translation.
    Llama {
        /// Entries of the vocabulary.
        vocab: u32,
        /// Width of the residual stream.
        width: u32,
        /// Number of blocks.
        layers: u32,
        /// Attention heads; they share the width evenly.
        heads: u32,
        /// Heads for keys and values; each serves as many query heads.
        kv_heads: u32,
        /// Width inside a feed-forward block.
        hidden: u32,
        /// Longest sequence in tokens.
        context: u32,
        /// Whether the output head is the embedding.
        tied: bool,
        /// Base of the rotary position angles.
        rope_theta: f32,
        /// What norms add before they divide.
        norm_epsilon: f32,
    },
    /// Tensors that the genesis lists one by one; only the islands know how they compute.
    Custom,
}

impl Model {
    /// The shape that `name` stands for in TOML.
    pub fn preset(name: &str) -> Option<Self> {
        let llama = |vocab, width, layers, heads, kv_heads, hidden, context, tied| Self::Llama {
            vocab,
            width,
            layers,
            heads,
            kv_heads,
            hidden,
            context,
            tied,
            rope_theta: ROPE_THETA,
            norm_epsilon: NORM_EPSILON,
        };
        match name {
            "nano" => Some(llama(256, 128, 4, 4, 4, 512, 128, true)),
            "micro" => Some(llama(256, 256, 6, 8, 8, 768, 256, true)),
            "mini" => Some(llama(256, 512, 10, 8, 8, 1280, 512, true)),
            "small" => Some(llama(32_000, 768, 14, 12, 12, 2048, 1024, true)),
            "1b" => Some(llama(32_000, 2048, 22, 32, 4, 5632, 2048, false)),
            _ => None,
        }
    }

    /// Longest sequence in tokens, if the shape says.
    pub fn context(&self) -> Option<u32> {
        match *self {
            Self::Llama { context, .. } => Some(context),
            Self::Custom => None,
        }
    }

    /// The tensors of this shape in name order; none for [`Model::Custom`], whose tensors only
    /// the genesis knows.
    pub fn tensors(&self) -> Vec<TensorSpec> {
        let Self::Llama { vocab, width, layers, heads, kv_heads, hidden, tied, .. } = *self else {
            return Vec::new();
        };
        let embedding = |name: &str| {
            let init = Init::Normal(INIT_STD);
            TensorSpec::new(name, &[vocab, width], TensorKind::Embedding, init)
        };
        let kv_width = width.checked_div(heads).unwrap_or(0).saturating_mul(kv_heads);
        let mut tensors = vec![embedding("model.embed_tokens.weight")];
        if !tied {
            tensors.push(embedding("lm_head.weight"));
        }
        tensors.push(norm("model.norm.weight".into(), width));
        let residual = residual_std(layers);
        for layer in 0..layers {
            let name = |part: &str| format!("model.layers.{layer}.{part}.weight");
            tensors.extend([
                norm(name("input_layernorm"), width),
                norm(name("post_attention_layernorm"), width),
                matrix(name("self_attn.q_proj"), [width, width], INIT_STD),
                matrix(name("self_attn.k_proj"), [kv_width, width], INIT_STD),
                matrix(name("self_attn.v_proj"), [kv_width, width], INIT_STD),
                matrix(name("self_attn.o_proj"), [width, width], residual),
                matrix(name("mlp.gate_proj"), [hidden, width], INIT_STD),
                matrix(name("mlp.up_proj"), [hidden, width], INIT_STD),
                matrix(name("mlp.down_proj"), [width, hidden], residual),
            ]);
        }
        tensors.sort_by(|one, other| one.name.cmp(&other.name));
        tensors
    }
}

fn matrix(name: String, shape: [u32; 2], std: f32) -> TensorSpec {
    TensorSpec::new(name, &shape, TensorKind::Matrix, Init::Normal(std))
}

fn norm(name: String, width: u32) -> TensorSpec {
    TensorSpec::new(name, &[width], TensorKind::Vector, Init::Ones)
}

/// Projections into the residual stream begin smaller, so that its variance does not grow with
/// the number of blocks, which add to it twice each.
fn residual_std(layers: u32) -> f32 {
    #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
    let std = (f64::from(INIT_STD) / (2.0 * f64::from(layers)).sqrt()) as f32;
    std
}

/// Names that [`Model::preset`] knows: about 1M, 5M, 30M, 125M and 1.1B parameters.
pub const PRESETS: [&str; 5] = ["nano", "micro", "mini", "small", "1b"];

/// Base of the rotary angles unless the genesis says otherwise: Llama's.
pub(super) const ROPE_THETA: f32 = 10_000.0;
/// What norms add before they divide unless the genesis says otherwise: Llama's.
pub(super) const NORM_EPSILON: f32 = 1e-5;
/// Standard deviation of initial weights: Llama's and GPT-2's.
const INIT_STD: f32 = 0.02;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_have_about_the_size_they_promise() {
        let sizes = [1.0e6, 5.0e6, 30.0e6, 125.0e6, 1.1e9];
        for (name, size) in PRESETS.into_iter().zip(sizes) {
            let tensors = Model::preset(name).unwrap().tensors();
            let elements = tensors.iter().map(TensorSpec::elements).sum::<usize>() as f64;
            assert!((elements / size - 1.0).abs() < 0.1, "{name}: {elements}");
        }
        assert_eq!(Model::preset("huge"), None);
    }

    #[test]
    fn tensors_are_those_of_hugging_face() {
        let tensors = Model::preset("1b").unwrap().tensors();
        assert_eq!(tensors.len(), 3 + 22 * 9);
        assert!(tensors.is_sorted_by(|one, other| one.name < other.name));
        let shape = |name: &str| tensors.iter().find(|t| t.name == name).unwrap().shape.clone();
        assert_eq!(shape("lm_head.weight"), [32_000, 2048]);
        assert_eq!(shape("model.layers.0.self_attn.k_proj.weight"), [256, 2048]);
        assert_eq!(shape("model.layers.21.mlp.down_proj.weight"), [2048, 5632]);
        assert_eq!(shape("model.norm.weight"), [2048]);
        let nano = Model::preset("nano").unwrap().tensors();
        assert!(nano.iter().all(|tensor| tensor.name != "lm_head.weight"));
        let down = nano.iter().find(|t| t.name.ends_with("0.mlp.down_proj.weight")).unwrap();
        let Init::Normal(std) = down.init else { panic!("{down:?}") };
        assert!((std - 0.007_071_068).abs() < 1e-8, "{std}");
    }
}
