//! What one island does without the others: to know the machine, and to compare with.

use std::path::Path;
use std::time::Duration;

use atoll_protocol::genesis::Genesis;
use serde::{Deserialize, Serialize};

use super::error::UpError;
use super::genesis;
use super::options::Options;
use super::site::{Site, words};
use super::stage::Stage;

/// What one island alone came to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Alone {
    /// Its loss on the text that was held out from the swarm, too.
    pub(super) loss: f64,
    pub(super) steps: u64,
    pub(super) tokens: u64,
    /// Seconds it took with the whole machine to itself.
    pub(super) seconds: f64,
}

/// What `atoll train --json` prints.
#[derive(Debug, Deserialize)]
struct Trained {
    loss_last: f64,
    steps: u64,
    tokens: u64,
    seconds: f64,
}

/// What `atoll eval --json` prints.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Evaluated {
    pub(super) loss: f64,
    /// Of each fragment, where it is the outer state of a run.
    pub(super) versions: Option<Vec<u32>>,
}

/// Tokens that the whole machine trains in a second.
pub(super) fn speed(
    site: &Site,
    options: &Options,
    genesis: &Genesis,
    stage: &mut Stage,
) -> Result<f64, UpError> {
    stage.begin("measuring how fast this machine trains")?;
    let limit = ["--minutes".to_owned(), (PROBE_SECONDS / 60.0).to_string()];
    let trained = train(site, options, genesis, "probe", &limit, stage)?;
    // A short probe is mostly its beginning and its end; the limit is what it trained.
    let seconds =
        if trained.seconds > 3.0 * PROBE_SECONDS { trained.seconds } else { PROBE_SECONDS };
    Ok(trained.tokens as f64 / seconds)
}

/// Trains as many steps as the fastest island of the swarm took that nothing was done to, as on a
/// machine of its own: of the same run, and so with the same text held out, but with a learning
/// rate that has fallen when those steps are done.
pub(super) fn compare(
    site: &Site,
    options: &Options,
    genesis: &Genesis,
    steps: u64,
    stage: &mut Stage,
) -> Result<Alone, UpError> {
    stage.begin(format!("one island alone, to compare: {steps} steps"))?;
    let tokens = steps.saturating_mul(genesis::tokens_in_step(genesis));
    let limits = ["--steps".into(), steps.to_string(), "--rate-tokens".into(), tokens.to_string()];
    let trained = train(site, options, genesis, "one island", &limits, stage)?;
    let Trained { loss_last: loss, steps, tokens, seconds } = trained;
    Ok(Alone { loss, steps, tokens, seconds })
}

/// The loss on held-out text of a lone island, or of the newest stable outer state in the folder
/// of a run.
pub(super) fn evaluate(
    site: &Site,
    options: &Options,
    folder: &Path,
    stage: &mut Stage,
) -> Result<Evaluated, UpError> {
    let mut arguments = words([&"eval", &"--json", &"--dir", &folder]);
    arguments.extend(options.data_flags()?.into_iter().map(Into::into));
    let text = site.atoll(stage, "evaluation", &arguments, EVALUATE_WITHIN)?;
    read("atoll eval", &text)
}

/// Some text that the same writes.
pub(super) fn sample(site: &Site, folder: &Path, stage: &mut Stage) -> Result<String, UpError> {
    let arguments = words([
        &"sample",
        &"--dir",
        &folder,
        &"--prompt",
        &PROMPT,
        &"--tokens",
        &SAMPLE_TOKENS,
        &"--temperature",
        &"0.5",
    ]);
    site.atoll(stage, "sample", &arguments, EVALUATE_WITHIN).map(|text| text.trim().to_owned())
}

fn train(
    site: &Site,
    options: &Options,
    genesis: &Genesis,
    name: &str,
    limits: &[String],
    stage: &mut Stage,
) -> Result<Trained, UpError> {
    let folder = site.folder.join(name.replace(' ', "-"));
    let file = site.folder.join(format!("{}.toml", name.replace(' ', "-")));
    std::fs::write(&file, genesis.to_toml()).map_err(UpError::file(&file))?;
    let mut arguments = words([&"train", &"--json", &"--genesis", &file, &"--dir", &folder]);
    arguments.extend(limits.iter().map(Into::into));
    arguments.extend(options.data_flags()?.into_iter().map(Into::into));
    let patience = Duration::from_secs_f64(TRAIN_WITHIN.max(options.minutes * 60.0 * 2.0));
    read("atoll train", &site.atoll(stage, name, &arguments, patience)?)
}

fn read<'a, T: Deserialize<'a>>(who: &str, text: &'a str) -> Result<T, UpError> {
    let last = text.lines().last().unwrap_or_default();
    serde_json::from_str(last).map_err(|error| UpError::Process {
        who: who.to_owned(),
        what: format!("printed {last:?}: {error}"),
        log: String::new(),
    })
}

/// Long enough to be exact to a tenth.
const PROBE_SECONDS: f64 = 3.0;
/// How sampled text begins.
const PROMPT: &str = "The ";
const SAMPLE_TOKENS: &str = "400";
const EVALUATE_WITHIN: Duration = Duration::from_secs(300);
/// At least, in seconds.
const TRAIN_WITHIN: f64 = 600.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_line_is_read() {
        let text = "something\n{\"loss_last\":2.5,\"steps\":3,\"tokens\":30,\"seconds\":1.5}\n";
        let trained: Trained = read("x", text).unwrap();
        assert_eq!(trained.loss_last, 2.5);
        assert_eq!((trained.steps, trained.tokens, trained.seconds), (3, 30, 1.5));
        assert!(read::<Trained>("x", "nonsense").is_err());
    }
}
