//! `atoll import`: begin with a model from elsewhere.

use atoll_node::island::data::{GENERATED, Tokenizer};
use atoll_node::island::device::DeviceChoice;
use atoll_node::island::hugging_face;
use atoll_node::island::layout::Layout;
use atoll_protocol::genesis::{Genesis, Model};

use super::failure::Failure;
use super::folder::{BYTE, Folder, Settings};
use super::island;
use crate::cli::{ImportOptions, IslandOptions};

/// Makes an island's folder from a model.
pub(crate) fn run(options: &ImportOptions) -> Result<(), Failure> {
    let folder = Folder::new(&options.dir);
    if folder.is_taken() {
        return Err(Failure::new(format!("{}: an island lives here", options.dir.display()))
            .hint("name another folder with --dir"));
    }
    let imported = hugging_face::import(&options.from)?;
    let mut genesis = Genesis::new("imported", imported.model);
    let context = imported.model.context().unwrap_or(SEQUENCE_MAX);
    genesis.data.sequence = options.sequence.unwrap_or(context.min(SEQUENCE_MAX));
    genesis.data.batch = options.batch.unwrap_or(genesis.data.batch);
    genesis.schedule.peak = options.learning_rate;
    let few = !matches!(imported.model, Model::Llama { vocab, .. } if vocab >= BYTES);
    if imported.tokenizer.is_none() && few {
        return Err(Failure::new("the model has no tokenizer and too few tokens for bytes")
            .hint("put its tokenizer.json into the folder"));
    }
    let data = options.text.data.clone().unwrap_or_else(|| GENERATED.into());
    island::name_text(&mut genesis, &data, imported.tokenizer.as_ref());
    genesis.validate()?;
    let settings = Settings { data, field: options.text.field.clone(), accumulate: 1 };
    let tokenizer = imported.tokenizer.clone();
    let parameters = imported.into_parameters(&Layout::new(&genesis))?;
    let parts = parameters.len();
    let island_options =
        IslandOptions { dir: options.dir.clone(), device: DeviceChoice::Cpu, threads: Some(1) };
    let used = match &tokenizer {
        Some(files) => files.tokenizer()?,
        None => Tokenizer::byte(),
    };
    let dataset =
        island::dataset(&folder, &genesis, used, &settings.data, settings.field.as_deref())?;
    let mut learner = island::with(parameters, &genesis, &settings, &island_options, &dataset)?;
    // Last: an island's folder without a checkpoint would begin with other parameters.
    folder.save(&mut learner)?;
    folder.create(&genesis, &settings, tokenizer.as_ref())?;
    let by = tokenizer.map_or(BYTE, |_| "its own tokenizer");
    eprintln!(
        "{}: {parts} parameters, text by {by}\nnext: atoll sample --dir {0}, or atoll train \
         --resume --dir {0}",
        options.dir.display()
    );
    Ok(())
}

/// Sequences of an imported model are at most this long unless somebody says otherwise: a step
/// then fits a laptop's memory and patience.
const SEQUENCE_MAX: u32 = 512;
/// Tokens of the byte tokenizer.
const BYTES: u32 = 256;
