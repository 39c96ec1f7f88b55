//! `config.json` of a Llama model.

use std::path::Path;

use atoll_protocol::genesis::{Genesis, Model};
use serde_json::{Value, json};

use super::error::HuggingFaceError;
use crate::island::shape::Shape;

/// The model that a `config.json` describes; `path` is where it was read.
pub(super) fn read(path: &Path, text: &str) -> Result<Model, HuggingFaceError> {
    let config: Value =
        serde_json::from_str(text).map_err(|error| HuggingFaceError::malformed(path, error))?;
    if !config.is_object() {
        return Err(HuggingFaceError::malformed(path, "this is no JSON object"));
    }
    let config = Config { path, values: &config };
    config.check_architecture()?;
    config.check_settings()?;
    let (width, heads) = (config.whole("hidden_size")?, config.whole("num_attention_heads")?);
    config.check_head(width, heads)?;
    let model = Model::Llama {
        vocab: config.whole("vocab_size")?,
        width,
        layers: config.whole("num_hidden_layers")?,
        heads,
        kv_heads: config.whole_or("num_key_value_heads", heads)?,
        hidden: config.whole("intermediate_size")?,
        context: config.whole_or("max_position_embeddings", CONTEXT)?,
        tied: config.flag("tie_word_embeddings")?,
        rope_theta: config.rope_theta()?,
        norm_epsilon: config.real_or("rms_norm_eps", NORM_EPSILON)?,
    };
    check(path, model)?;
    Ok(model)
}

/// Refuses a model that no run could have; `path` is where it was described.
pub(super) fn check(path: &Path, model: Model) -> Result<(), HuggingFaceError> {
    let refuse = |source| HuggingFaceError::Model { path: path.to_owned(), source };
    Genesis::new("imported", model).validate().map_err(refuse)
}

/// The `config.json` of `model`; none if it has no such form.
pub(super) fn write(model: &Model) -> Option<Value> {
    let shape = Shape::of(model)?;
    // Newer releases of transformers read `rope_parameters`, older ones `rope_theta`. Special
    // tokens are none: Llama's default ids would be ordinary bytes here.
    Some(json!({
        "architectures": [ARCHITECTURE],
        "model_type": "llama",
        "vocab_size": shape.vocab,
        "hidden_size": shape.width,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_width(),
        "intermediate_size": shape.hidden,
        "max_position_embeddings": shape.context,
        "tie_word_embeddings": shape.tied,
        "rope_theta": decimal(shape.rope_theta),
        "rope_parameters": { "rope_type": "default", "rope_theta": decimal(shape.rope_theta) },
        "rms_norm_eps": decimal(shape.norm_epsilon),
        "hidden_act": "silu",
        "attention_bias": false,
        "mlp_bias": false,
        "attention_dropout": 0.0,
        "bos_token_id": null,
        "eos_token_id": null,
        "torch_dtype": "float32",
    }))
}

/// The f64 that is written with the same digits, so that 1e-5 stays 1e-5.
fn decimal(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

struct Config<'a> {
    path: &'a Path,
    values: &'a Value,
}

impl Config<'_> {
    fn check_architecture(&self) -> Result<(), HuggingFaceError> {
        let named = self.values["architectures"].as_array().and_then(|list| list.first());
        let named = named.unwrap_or(&self.values["model_type"]);
        let found = named.as_str().unwrap_or("none");
        if found == ARCHITECTURE || found == "llama" {
            return Ok(());
        }
        let (path, found) = (self.path.to_owned(), found.to_owned());
        Err(HuggingFaceError::Architecture { path, found })
    }

    /// Refuses what would be computed differently here, by name.
    fn check_settings(&self) -> Result<(), HuggingFaceError> {
        let supported: [(&str, &[Value]); 7] = [
            ("hidden_act", &[json!("silu"), json!("swish")]),
            ("attention_bias", &[json!(false)]),
            ("mlp_bias", &[json!(false)]),
            ("attention_dropout", &[json!(0.0), json!(0)]),
            ("rope_interleaved", &[json!(false)]),
            ("pretraining_tp", &[json!(1)]),
            ("quantization_config", &[]),
        ];
        for (setting, allowed) in supported {
            let value = &self.values[setting];
            if !value.is_null() && !allowed.contains(value) {
                let wanted = allowed.first().map_or("none".to_owned(), Value::to_string);
                return Err(HuggingFaceError::setting(self.path, setting, value, wanted));
            }
        }
        self.check_rope("rope_scaling")?;
        self.check_rope("rope_parameters")
    }

    /// Rotary positions may be described, as long as they are the plain ones.
    fn check_rope(&self, setting: &str) -> Result<(), HuggingFaceError> {
        let Some(rope) = self.values[setting].as_object() else { return Ok(()) };
        for (key, plain) in [
            ("rope_type", json!("default")),
            ("type", json!("default")),
            ("partial_rotary_factor", json!(1.0)),
        ] {
            if rope.get(key).is_some_and(|value| !value.is_null() && *value != plain) {
                let setting = format!("{setting}.{key}");
                return Err(HuggingFaceError::setting(self.path, &setting, &rope[key], plain));
            }
        }
        Ok(())
    }

    fn check_head(&self, width: u32, heads: u32) -> Result<(), HuggingFaceError> {
        let expected = width.checked_div(heads).unwrap_or(0);
        let found = self.whole_or("head_dim", expected)?;
        if found == expected {
            return Ok(());
        }
        let wanted = format!("hidden_size / num_attention_heads = {expected}");
        Err(HuggingFaceError::setting(self.path, "head_dim", found, wanted))
    }

    fn rope_theta(&self) -> Result<f32, HuggingFaceError> {
        let nested = self.values["rope_parameters"]["rope_theta"].as_f64();
        match nested {
            Some(theta) => Ok(narrow(theta)),
            None => self.real_or("rope_theta", ROPE_THETA),
        }
    }

    fn whole(&self, setting: &str) -> Result<u32, HuggingFaceError> {
        let value = &self.values[setting];
        if value.is_null() {
            let (path, setting) = (self.path.to_owned(), setting.to_owned());
            return Err(HuggingFaceError::MissingSetting { path, setting });
        }
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        let wanted = "a whole number below 2^32";
        number.ok_or_else(|| HuggingFaceError::setting(self.path, setting, value, wanted))
    }

    fn whole_or(&self, setting: &str, default: u32) -> Result<u32, HuggingFaceError> {
        if self.values[setting].is_null() { Ok(default) } else { self.whole(setting) }
    }

    fn real_or(&self, setting: &str, default: f32) -> Result<f32, HuggingFaceError> {
        let value = &self.values[setting];
        if value.is_null() {
            return Ok(default);
        }
        let refuse = || HuggingFaceError::setting(self.path, setting, value, "a number");
        value.as_f64().map(narrow).ok_or_else(refuse)
    }

    fn flag(&self, setting: &str) -> Result<bool, HuggingFaceError> {
        let value = &self.values[setting];
        let refuse = || HuggingFaceError::setting(self.path, setting, value, "true or false");
        if value.is_null() { Ok(false) } else { value.as_bool().ok_or_else(refuse) }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
fn narrow(value: f64) -> f32 {
    value as f32
}

const ARCHITECTURE: &str = "LlamaForCausalLM";
/// What `LlamaConfig` takes for settings that a file leaves out.
const CONTEXT: u32 = 2048;
const NORM_EPSILON: f32 = 1e-6;
const ROPE_THETA: f32 = 10_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn read_with(key: &str, value: Value) -> Result<Model, HuggingFaceError> {
        let mut config = write(&Model::preset("nano").unwrap()).unwrap();
        config[key] = value;
        read(Path::new("config.json"), &config.to_string())
    }

    #[test]
    fn a_written_config_reads_as_the_same_model() {
        for name in atoll_protocol::genesis::PRESETS {
            let model = Model::preset(name).unwrap();
            let text = write(&model).unwrap().to_string();
            assert_eq!(read(Path::new("config.json"), &text).unwrap(), model);
        }
        assert_eq!(write(&Model::Custom), None);
    }

    #[test]
    fn unsupported_settings_are_refused_by_name() {
        let cases = [
            ("attention_bias", json!(true)),
            ("mlp_bias", json!(true)),
            ("attention_dropout", json!(0.1)),
            ("hidden_act", json!("gelu")),
            ("head_dim", json!(64)),
            ("quantization_config", json!({"bits": 4})),
            ("hidden_size", json!("wide")),
            ("hidden_size", json!(-1)),
            ("rms_norm_eps", json!("small")),
            ("tie_word_embeddings", json!(1)),
        ];
        for (key, value) in cases {
            let error = read_with(key, value.clone()).unwrap_err();
            assert!(matches!(&error, HuggingFaceError::Setting { setting, .. } if setting == key));
            assert!(error.to_string().contains(&format!("`{key}` is {value}")), "{error}");
        }
        for key in ["rope_scaling", "rope_parameters"] {
            let error = read_with(key, json!({"rope_type": "llama3"})).unwrap_err().to_string();
            assert!(error.contains(&format!("`{key}.rope_type` is \"llama3\"")), "{error}");
        }
        let error = read_with("vocab_size", Value::Null).unwrap_err().to_string();
        assert_eq!(error, "config.json: `vocab_size` is missing");
        let error = read_with("architectures", json!(["MistralForCausalLM"])).unwrap_err();
        assert!(error.to_string().contains("`MistralForCausalLM`"), "{error}");
        assert!(matches!(read_with("vocab_size", json!(0)), Err(HuggingFaceError::Model { .. })));
    }

    #[test]
    fn what_a_file_leaves_out_is_what_llama_takes() {
        let text = r#"{"model_type": "llama", "vocab_size": 256, "hidden_size": 64,
            "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}"#;
        let Model::Llama { kv_heads, context, tied, rope_theta, norm_epsilon, .. } =
            read(Path::new("config.json"), text).unwrap()
        else {
            panic!("not a Llama model")
        };
        assert_eq!((kv_heads, context, tied), (4, 2048, false));
        assert_eq!((rope_theta, norm_epsilon), (10_000.0, 1e-6));
    }
}
