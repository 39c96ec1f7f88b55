//! `atoll eval`: the loss on text that was held out from training.

use std::io::Write;

use atoll_node::island::Island;

use super::failure::Failure;
use super::folder::{BYTE, Folder};
use super::island;
use crate::cli::EvalOptions;

/// Measures and prints the held-out loss.
pub(crate) fn run(options: &EvalOptions) -> Result<(), Failure> {
    let folder = Folder::new(&options.island.dir);
    let (data, field) = (options.text.data.as_deref(), options.text.field.as_deref());
    let mut learner = island::trained(&folder, &options.island, data, field)?;
    let loss = learner.evaluate()?;
    let bits = (learner.genesis().data.tokenizer == BYTE).then(|| loss / std::f64::consts::LN_2);
    let text = if options.json {
        let (steps, tokens) = (learner.steps(), learner.tokens());
        let perplexity = loss.exp();
        let object = serde_json::json!({
            "loss": loss, "perplexity": perplexity, "bits_per_byte": bits,
            "steps": steps, "tokens": tokens,
        });
        object.to_string()
    } else {
        let bits = bits.map(|bits| format!(", {bits:.3} bits per byte")).unwrap_or_default();
        format!(
            "held-out loss {loss:.4} nats per token, perplexity {:.2}{bits}, after {} steps and \
             {} tokens",
            loss.exp(),
            learner.steps(),
            learner.tokens()
        )
    };
    // Whoever closed the pipe does not want to know.
    let _ = writeln!(std::io::stdout(), "{text}");
    Ok(())
}
