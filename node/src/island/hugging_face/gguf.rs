//! Reading a GGUF file of the Llama architecture.

use std::path::Path;

use atoll_protocol::genesis::{Model, TensorSpec};

use super::config;
use super::error::HuggingFaceError;
use super::import::{Imported, refuse, sides};
use crate::island::data::TokenizerFiles;
use crate::island::device::DeviceError;
use crate::island::device::gguf::GgufFile;

/// Reads the model, and its tokenizer if it can be written in Hugging Face's form.
pub(super) fn import(path: &Path) -> Result<Imported, HuggingFaceError> {
    let mut source = Source { path, file: GgufFile::open(path).map_err(failed(path))? };
    let model = source.model()?;
    let specs = model.tensors();
    source.check_names(&specs)?;
    let mut tensors = Vec::with_capacity(specs.len());
    for spec in &specs {
        tensors.push(source.tensor(&model, spec)?);
    }
    let tokenizer = source.file.tokenizer().ok().map(|json| TokenizerFiles {
        path: path.to_owned(),
        json,
        config: None,
    });
    Ok(Imported { model, tensors, tokenizer })
}

struct Source<'a> {
    path: &'a Path,
    file: GgufFile,
}

impl Source<'_> {
    fn model(&self) -> Result<Model, HuggingFaceError> {
        self.check_settings()?;
        let (width, heads) = (self.whole("embedding_length")?, self.whole("attention.head_count")?);
        let side = width.checked_div(heads).unwrap_or(0);
        for key in ["rope.dimension_count", "attention.key_length", "attention.value_length"] {
            let found = self.whole_or(key, side)?;
            if found != side {
                let setting = format!("llama.{key}");
                return Err(HuggingFaceError::setting(self.path, &setting, found, side));
            }
        }
        let rows = self.file.shape("token_embd.weight").and_then(|shape| shape.first());
        let rows = rows.and_then(|&rows| u32::try_from(rows).ok());
        let model = Model::Llama {
            vocab: rows.map_or_else(|| self.whole("vocab_size"), Ok)?,
            width,
            layers: self.whole("block_count")?,
            heads,
            kv_heads: self.whole_or("attention.head_count_kv", heads)?,
            hidden: self.whole("feed_forward_length")?,
            context: self.whole("context_length")?,
            tied: self.file.shape("output.weight").is_none(),
            rope_theta: narrow(self.file.number("llama.rope.freq_base").unwrap_or(10_000.0)),
            norm_epsilon: self.norm_epsilon()?,
        };
        config::check(self.path, model)?;
        Ok(model)
    }

    fn check_settings(&self) -> Result<(), HuggingFaceError> {
        let architecture = self.file.text("general.architecture").unwrap_or("none");
        if architecture != "llama" {
            let (path, found) = (self.path.to_owned(), architecture.to_owned());
            return Err(HuggingFaceError::Architecture { path, found });
        }
        let scaling = self.file.text("llama.rope.scaling.type").unwrap_or("none");
        if scaling != "none" {
            let key = "llama.rope.scaling.type";
            return Err(HuggingFaceError::setting(self.path, key, scaling, "none"));
        }
        let experts = self.whole_or("expert_count", 0)?;
        if experts != 0 {
            return Err(HuggingFaceError::setting(self.path, "llama.expert_count", experts, 0));
        }
        Ok(())
    }

    fn norm_epsilon(&self) -> Result<f32, HuggingFaceError> {
        let key = "attention.layer_norm_rms_epsilon";
        self.file.number(&format!("llama.{key}")).map(narrow).ok_or_else(|| self.missing(key))
    }

    fn whole(&self, key: &str) -> Result<u32, HuggingFaceError> {
        let setting = format!("llama.{key}");
        let value = self.file.number(&setting).ok_or_else(|| self.missing(key))?;
        if value.fract() != 0.0 || !(0.0..=f64::from(u32::MAX)).contains(&value) {
            let wanted = "a whole number below 2^32";
            return Err(HuggingFaceError::setting(self.path, &setting, value, wanted));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range was just checked"
        )]
        let whole = value as u32;
        Ok(whole)
    }

    fn whole_or(&self, key: &str, default: u32) -> Result<u32, HuggingFaceError> {
        let given = self.file.number(&format!("llama.{key}")).is_some();
        if given { self.whole(key) } else { Ok(default) }
    }

    fn missing(&self, key: &str) -> HuggingFaceError {
        let setting = format!("llama.{key}");
        HuggingFaceError::MissingSetting { path: self.path.to_owned(), setting }
    }

    fn check_names(&self, specs: &[TensorSpec]) -> Result<(), HuggingFaceError> {
        let mut needed: Vec<_> = specs.iter().map(|spec| gguf_name(&spec.name)).collect();
        needed.sort_unstable();
        let names = self.file.names();
        let missing = needed.iter().filter(|name| !names.contains(&name.as_str())).cloned();
        let extra = names.iter().map(|&name| name.to_owned());
        let extra = extra.filter(|name| needed.binary_search(name).is_err()).collect();
        refuse(self.path, missing.collect(), extra)
    }

    fn tensor(&mut self, model: &Model, spec: &TensorSpec) -> Result<Vec<f32>, HuggingFaceError> {
        let (name, expected) = (gguf_name(&spec.name), sides(spec));
        let found = self.file.shape(&name).unwrap_or_default().to_vec();
        if found != expected {
            let path = self.path.to_owned();
            return Err(HuggingFaceError::TensorShape { path, name, found, expected });
        }
        let values = self.file.read(&name).map_err(failed(self.path))?;
        let Model::Llama { heads, kv_heads, .. } = *model else { return Ok(values) };
        Ok(match spec.name.split('.').nth_back(1) {
            Some("q_proj") => halves_from_pairs(&values, heads as usize, expected[1]),
            Some("k_proj") => halves_from_pairs(&values, kv_heads as usize, expected[1]),
            _ => values,
        })
    }
}

/// The name that a tensor of Hugging Face's naming has in GGUF files.
fn gguf_name(name: &str) -> String {
    let Some((layer, part)) =
        name.strip_prefix("model.layers.").and_then(|rest| rest.split_once('.'))
    else {
        return match name {
            "model.embed_tokens.weight" => "token_embd.weight",
            "model.norm.weight" => "output_norm.weight",
            "lm_head.weight" => "output.weight",
            other => other,
        }
        .to_owned();
    };
    let part = match part {
        "input_layernorm.weight" => "attn_norm.weight",
        "post_attention_layernorm.weight" => "ffn_norm.weight",
        "self_attn.q_proj.weight" => "attn_q.weight",
        "self_attn.k_proj.weight" => "attn_k.weight",
        "self_attn.v_proj.weight" => "attn_v.weight",
        "self_attn.o_proj.weight" => "attn_output.weight",
        "mlp.gate_proj.weight" => "ffn_gate.weight",
        "mlp.up_proj.weight" => "ffn_up.weight",
        "mlp.down_proj.weight" => "ffn_down.weight",
        other => other,
    };
    format!("blk.{layer}.{part}")
}

/// Undoes what GGUF's writers do to queries and keys: there a rotated pair's two rows follow one
/// another, while Hugging Face has all first rows of a head and then all second ones.
fn halves_from_pairs(values: &[f32], heads: usize, columns: usize) -> Vec<f32> {
    let rows = values.len() / columns;
    let (side, half) = (rows / heads, rows / heads / 2);
    let source = |row: usize| {
        let (head, within) = (row / side, row % side);
        head * side + 2 * (within % half) + within / half
    };
    (0..rows).flat_map(|row| &values[source(row) * columns..][..columns]).copied().collect()
}

fn failed(path: &Path) -> impl FnOnce(DeviceError) -> HuggingFaceError {
    let path = path.to_owned();
    |source| HuggingFaceError::Gguf { path, source }
}

#[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
fn narrow(value: f64) -> f32 {
    value as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_become_halves() {
        // Two heads of four rows of one column: pairs (a0 b0)(a1 b1) become a0 a1 b0 b1.
        let pairs = [0.0, 2.0, 1.0, 3.0, 10.0, 12.0, 11.0, 13.0];
        let halves = [0.0, 1.0, 2.0, 3.0, 10.0, 11.0, 12.0, 13.0];
        assert_eq!(halves_from_pairs(&pairs, 2, 1), halves);
    }

    #[test]
    fn every_tensor_has_a_name_of_its_own() {
        let mut names: Vec<_> =
            Model::preset("1b").unwrap().tensors().iter().map(|it| gguf_name(&it.name)).collect();
        assert!(names.iter().all(|name| !name.starts_with("model.") && !name.contains("proj")));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
