//! `atoll sample`: the trained model writes.

use std::io::Write;

use atoll_node::island::sampler::Sampler;
use atoll_protocol::rng::Rng;

use super::failure::Failure;
use super::trained::Trained;
use crate::cli::SampleOptions;

/// Writes text to standard output as it comes.
pub(crate) fn run(options: &SampleOptions) -> Result<(), Failure> {
    if !options.temperature.is_finite() || options.temperature < 0.0 {
        return Err(Failure::new(format!("--temperature {}: 0 or more", options.temperature)));
    }
    let trained = Trained::open(&options.island, &options.choice, None, None)?;
    let Trained { folder, mut learner, .. } = trained;
    let tokenizer = folder.tokenizer(learner.genesis())?;
    let mut tokens: Vec<u32> = tokenizer.separator().into_iter().collect();
    tokenizer.encode(&options.prompt, &mut tokens)?;
    if tokens.is_empty() {
        return Err(Failure::new("there is nothing to begin with").hint("give a --prompt"));
    }
    let sampler = Sampler { temperature: options.temperature, top: options.top };
    let mut rng = Rng::new(options.seed);
    let mut decoder = tokenizer.decoder();
    let mut out = std::io::stdout().lock();
    let mut seen = 0;
    let mut written = write!(out, "{}", options.prompt);
    for _ in 0..options.tokens {
        let logits = learner.next_logits(&tokens, seen)?;
        seen = tokens.len();
        let next = sampler.choose(&logits, &mut rng);
        tokens.push(next);
        // The end of one document is the beginning of the next.
        let text = if Some(next) == tokenizer.separator() {
            "\n\n".to_owned()
        } else {
            decoder.push(next)
        };
        written = written.and_then(|()| write!(out, "{text}")).and_then(|()| out.flush());
        if written.is_err() {
            // Whoever read this has seen enough.
            return Ok(());
        }
    }
    let _ = writeln!(out, "{}", decoder.finish());
    Ok(())
}
