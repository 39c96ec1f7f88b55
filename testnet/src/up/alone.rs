//! What one island does without the others: to know the machine, and to compare with.

use std::path::Path;
use std::time::Duration;

use atoll_protocol::genesis::Genesis;
use serde::{Deserialize, Serialize};

use super::error::UpError;
use super::genesis;
use super::options::{GENERATED, Options};
use super::site::{Site, words};
use super::stage::Stage;

/// What one island alone came to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Alone {
    /// Its loss on the text that was held out from the swarm.
    pub(super) loss: f64,
    pub(super) steps: u64,
    pub(super) tokens: u64,
    /// Seconds it took with the whole machine to itself.
    pub(super) seconds: f64,
}

/// What `atoll train --json` prints.
#[derive(Debug, Deserialize)]
struct Trained {
    steps: u64,
    tokens: u64,
    seconds: f64,
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

/// Trains as many steps as an island of the swarm did, as on a machine of its own.
pub(super) fn compare(
    site: &Site,
    options: &Options,
    swarm: &Genesis,
    steps: u64,
    stage: &mut Stage,
) -> Result<Alone, UpError> {
    stage.begin(format!("one island alone, to compare: {steps} steps"))?;
    let lone = genesis::alone(swarm, steps);
    let limit = ["--steps".to_owned(), steps.to_string()];
    let trained = train(site, options, &lone, "one island", &limit, stage)?;
    let folder = site.folder.join("one-island-moved");
    super::model::moved(&site.folder.join("one-island"), swarm, &folder)?;
    let loss = evaluate(site, options, &folder, stage)?;
    Ok(Alone { loss, steps: trained.steps, tokens: trained.tokens, seconds: trained.seconds })
}

/// The loss of a lone island's folder on held-out text.
pub(super) fn evaluate(
    site: &Site,
    options: &Options,
    folder: &Path,
    stage: &mut Stage,
) -> Result<f64, UpError> {
    #[derive(Deserialize)]
    struct Evaluated {
        loss: f64,
    }
    let mut arguments = words([&"eval", &"--json", &"--dir", &folder]);
    if options.data != GENERATED {
        arguments.extend(words([&"--data", &std::path::absolute(&options.data)?]));
    }
    let text = site.atoll(stage, "evaluation", &arguments, EVALUATE_WITHIN)?;
    read::<Evaluated>("atoll eval", &text).map(|it| it.loss)
}

/// Some text of a lone island's folder.
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
    limit: &[String; 2],
    stage: &mut Stage,
) -> Result<Trained, UpError> {
    let folder = site.folder.join(name.replace(' ', "-"));
    let file = site.folder.join(format!("{}.toml", name.replace(' ', "-")));
    std::fs::write(&file, genesis.to_toml()).map_err(UpError::file(&file))?;
    let mut arguments = words([&"train", &"--json", &"--genesis", &file, &"--dir", &folder]);
    arguments.extend(limit.iter().map(Into::into));
    if options.data != GENERATED {
        arguments.extend(words([&"--data", &std::path::absolute(&options.data)?]));
    }
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
        let text = "something\n{\"steps\":3,\"tokens\":30,\"seconds\":1.5,\"dir\":\"x\"}\n";
        let trained: Trained = read("x", text).unwrap();
        assert_eq!((trained.steps, trained.tokens, trained.seconds), (3, 30, 1.5));
        assert!(read::<Trained>("x", "nonsense").is_err());
    }
}
