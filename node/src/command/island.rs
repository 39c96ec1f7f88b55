//! The island of a folder, ready to be used.

use std::sync::Arc;

use atoll_node::island::data::tokenizer::TOKENIZER;
use atoll_node::island::data::{Dataset, GENERATED, Progress, Source, Tokenizer, TokenizerFiles};
use atoll_node::island::layout::Layout;
use atoll_node::island::learner::{Choices, Learner};
use atoll_node::island::precision::PrecisionChoice;
use atoll_protocol::genesis::{Genesis, Model};
use atoll_protocol::id::NodeId;
use indicatif::{ProgressBar, ProgressStyle};

use super::failure::Failure;
use super::folder::{BYTE, Folder, Settings};
use crate::cli::IslandOptions;

/// Says in a new run's genesis what its text is and how it becomes tokens.
pub(super) fn name_text(genesis: &mut Genesis, data: &str, tokenizer: Option<&TokenizerFiles>) {
    if data != GENERATED {
        genesis.data.corpus = "files".into();
    }
    if let Some(files) = tokenizer {
        // A genesis that somebody wrote may have a name of its own for it.
        if genesis.data.tokenizer == BYTE {
            genesis.data.tokenizer = TOKENIZER.into();
        }
        genesis.data.tokenizer_content = Some(files.content());
    }
}

/// Opens the text of a lone island, with a bar while it is tokenized.
pub(super) fn dataset(
    folder: &Folder,
    genesis: &Genesis,
    tokenizer: Tokenizer,
    data: &str,
    field: Option<&str>,
) -> Result<Arc<Dataset>, Failure> {
    let source = match Source::named(data, field)? {
        Source::Generated { .. } => Source::Generated { seed: genesis.init_seed },
        files @ Source::Files(_) => files,
    };
    let Model::Llama { vocab, .. } = genesis.model else {
        return Err(Failure::new("the run's model is custom: only its owner can read its text"));
    };
    let style = ProgressStyle::with_template("reading text {bar:30} {bytes}/{total_bytes} {eta}");
    let bar = ProgressBar::hidden();
    bar.set_style(style.expect("a template of known fields"));
    let mut shown = false;
    let mut progress = |Progress { done, total }: Progress| {
        if !shown {
            bar.set_draw_target(indicatif::ProgressDrawTarget::stderr());
            shown = true;
        }
        bar.set_length(total);
        bar.set_position(done);
    };
    let dataset = Dataset::open(&source, tokenizer, vocab, &folder.cache(), &mut progress)?;
    bar.finish_and_clear();
    Ok(Arc::new(dataset))
}

/// An island with the parameters that the run begins with.
pub(super) fn fresh(
    genesis: &Genesis,
    settings: &Settings,
    options: &IslandOptions,
    precision: PrecisionChoice,
    dataset: &Arc<Dataset>,
) -> Result<Learner, Failure> {
    let choices = choices(settings, options, precision)?;
    let parameters = Layout::new(genesis).initial(genesis);
    Ok(Learner::new(genesis, &ALONE, dataset, &choices, parameters)?)
}

/// An island with these parameters, to look at and not to train: in f32.
pub(super) fn with(
    parameters: Vec<f32>,
    genesis: &Genesis,
    settings: &Settings,
    options: &IslandOptions,
    dataset: &Arc<Dataset>,
) -> Result<Learner, Failure> {
    let choices = choices(settings, options, PrecisionChoice::F32)?;
    Ok(Learner::new(genesis, &ALONE, dataset, &choices, parameters)?)
}

fn choices(
    settings: &Settings,
    options: &IslandOptions,
    precision: PrecisionChoice,
) -> Result<Choices, Failure> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let device = options.device.resolve()?;
    Ok(Choices {
        precision: precision.resolve(&device)?,
        device,
        threads: options.threads.unwrap_or(cores),
        accumulate: settings.accumulate,
    })
}

/// The name of an island that has no peers.
const ALONE: NodeId = NodeId([0; 32]);
