//! `atoll export`: the trained model as a Hugging Face folder.

use atoll_node::island::device::DeviceChoice;
use atoll_node::island::hugging_face::{self, ExportTokenizer};

use super::failure::Failure;
use super::folder::BYTE;
use super::trained::Trained;
use crate::cli::{ExportOptions, IslandOptions};

/// Writes the folder.
pub(crate) fn run(options: &ExportOptions) -> Result<(), Failure> {
    let dir = options.dir.clone();
    let island_options = IslandOptions { dir, device: DeviceChoice::Cpu, threads: Some(1) };
    let trained = Trained::open(&island_options, &options.choice, None, None)?;
    let Trained { folder, learner, .. } = &trained;
    let genesis = learner.genesis();
    let files = folder.tokenizer_files();
    let tokenizer = if genesis.data.tokenizer == BYTE {
        ExportTokenizer::Byte
    } else {
        ExportTokenizer::Files(&files)
    };
    let parameters = learner.parameters()?;
    hugging_face::export(&options.to, &genesis.model, learner.layout(), &parameters, tokenizer)?;
    eprintln!(
        "{}: {} parameters {}, for transformers' LlamaForCausalLM",
        options.to.display(),
        parameters.len(),
        trained.age()
    );
    Ok(())
}
