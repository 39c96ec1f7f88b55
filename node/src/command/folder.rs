//! The folder of a lone island: its genesis, its own settings, its checkpoint, its token cache.

use std::fs;
use std::path::{Path, PathBuf};

use atoll_node::island::Island;
use atoll_node::island::data::tokenizer::{TOKENIZER, TOKENIZER_CONFIG};
use atoll_node::island::data::{Tokenizer, TokenizerFiles};
use atoll_protocol::genesis::Genesis;
use serde::{Deserialize, Serialize};

use super::failure::Failure;

/// The folder of a lone island.
#[derive(Debug)]
pub(crate) struct Folder {
    root: PathBuf,
}

/// What an island chose for itself when its folder was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// `generated`, or a path.
    pub(crate) data: String,
    /// The field of JSONL lines that holds the text.
    pub(crate) field: Option<String>,
    /// Batches that make one step.
    pub(crate) accumulate: usize,
}

impl Folder {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Whether an island lives here already.
    pub(crate) fn is_taken(&self) -> bool {
        self.root.join(GENESIS).exists()
    }

    /// Makes the folder. What is in it stays.
    pub(crate) fn create(
        &self,
        genesis: &Genesis,
        settings: &Settings,
        tokenizer: Option<&TokenizerFiles>,
    ) -> Result<(), Failure> {
        fs::create_dir_all(&self.root).map_err(Failure::file(&self.root))?;
        if let Some(files) = tokenizer {
            files.write(&self.root)?;
        }
        let text = toml::to_string(settings).map_err(|error| Failure::new(error.to_string()))?;
        self.write(SETTINGS, &text)?;
        // Last: it is what makes the folder an island's.
        self.write(GENESIS, &genesis.to_toml())
    }

    /// What [`Folder::create`] wrote.
    pub(crate) fn open(&self) -> Result<(Genesis, Settings), Failure> {
        if !self.is_taken() {
            return Err(Failure::new(format!("{}: no island lives here", self.root.display()))
                .hint("`atoll train` makes one, and --dir names another folder"));
        }
        let genesis = self.read(GENESIS)?;
        let genesis = Genesis::from_toml(&genesis)
            .map_err(|error| Failure::new(format!("{GENESIS}: {error}")))?;
        let settings = toml::from_str(&self.read(SETTINGS)?)
            .map_err(|error| Failure::new(format!("{SETTINGS}: {error}")))?;
        Ok((genesis, settings))
    }

    /// How the run's text becomes tokens.
    pub(crate) fn tokenizer(&self, genesis: &Genesis) -> Result<Tokenizer, Failure> {
        if genesis.data.tokenizer == BYTE {
            return Ok(Tokenizer::byte());
        }
        let files = TokenizerFiles::read(&self.root.join(TOKENIZER))?;
        files.check(&genesis.data)?;
        Ok(files.tokenizer()?)
    }

    /// The bytes that a genesis names a tokenizer by.
    pub(crate) fn tokenizer_json(&self) -> Result<Vec<u8>, Failure> {
        let path = self.root.join(TOKENIZER);
        fs::read(&path).map_err(Failure::file(&path))
    }

    /// The tokenizer's files, as far as the run has them.
    pub(crate) fn tokenizer_files(&self) -> Vec<PathBuf> {
        let paths = [TOKENIZER, TOKENIZER_CONFIG].map(|name| self.root.join(name));
        paths.into_iter().filter(|path| path.exists()).collect()
    }

    /// Where tokens are kept.
    pub(crate) fn cache(&self) -> PathBuf {
        self.root.join("cache")
    }

    /// The newest checkpoint, if there is one.
    pub(crate) fn checkpoint(&self) -> Option<PathBuf> {
        // A crash between two renames leaves only the one before.
        [CHECKPOINT, BEFORE].map(|name| self.root.join(name)).into_iter().find(|it| it.exists())
    }

    /// Saves the island; until that is done the checkpoint before stays.
    pub(crate) fn save(&self, island: &mut dyn Island) -> Result<(), Failure> {
        let [next, current, before] = [NEXT, CHECKPOINT, BEFORE].map(|name| self.root.join(name));
        remove(&next)?;
        fs::create_dir_all(&next).map_err(Failure::file(&next))?;
        island.save(&next)?;
        if current.exists() {
            remove(&before)?;
            fs::rename(&current, &before).map_err(Failure::file(&current))?;
        }
        fs::rename(&next, &current).map_err(Failure::file(&next))?;
        remove(&before)
    }

    fn read(&self, name: &str) -> Result<String, Failure> {
        let path = self.root.join(name);
        fs::read_to_string(&path).map_err(Failure::file(&path))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.root.join(name);
        fs::write(&path, text).map_err(Failure::file(&path))
    }
}

fn remove(folder: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::file(folder)(error))
        }
        _ => Ok(()),
    }
}

/// The tokenizer that needs no file.
pub(crate) const BYTE: &str = "byte";
const GENESIS: &str = "genesis.toml";
const SETTINGS: &str = "island.toml";
const CHECKPOINT: &str = "checkpoint";
const NEXT: &str = "checkpoint.next";
const BEFORE: &str = "checkpoint.before";
