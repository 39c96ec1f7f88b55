//! `atoll eval`: the loss on text that was held out from training.

use std::io::Write;

use atoll_node::island::Island;
use atoll_node::island::data::GENERATED;

use super::failure::Failure;
use super::folder::BYTE;
use super::trained::Trained;
use crate::cli::EvalOptions;

/// Measures and prints the held-out loss.
pub(crate) fn run(options: &EvalOptions) -> Result<(), Failure> {
    let (data, field) = (options.text.data.as_deref(), options.text.field.as_deref());
    let mut trained = Trained::open(&options.island, &options.choice, data, field)?;
    let corpus = &trained.learner.genesis().data.corpus;
    if trained.versions.is_some() && data.is_none() && corpus != GENERATED {
        return Err(Failure::new("the run's text is its nodes' own")
            .hint("say what to measure on with --data"));
    }
    let loss = trained.learner.evaluate()?;
    let learner = &trained.learner;
    let bits = (learner.genesis().data.tokenizer == BYTE).then(|| loss / std::f64::consts::LN_2);
    let text = if options.json {
        let (steps, tokens) = (learner.steps(), learner.tokens());
        let perplexity = loss.exp();
        let object = serde_json::json!({
            "loss": loss, "perplexity": perplexity, "bits_per_byte": bits,
            "steps": steps, "tokens": tokens, "versions": trained.versions,
        });
        object.to_string()
    } else {
        let bits = bits.map(|bits| format!(", {bits:.3} bits per byte")).unwrap_or_default();
        format!(
            "held-out loss {loss:.4} nats per token, perplexity {:.2}{bits}, {}",
            loss.exp(),
            trained.age()
        )
    };
    // Whoever closed the pipe does not want to know.
    let _ = writeln!(std::io::stdout(), "{text}");
    Ok(())
}
