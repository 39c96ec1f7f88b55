//! A genesis as people write it: TOML in and out.

mod read;
mod write;

use super::Genesis;
use super::error::GenesisError;
use super::raw::Raw;
use crate::limits::GENESIS_BYTES_MAX;
use crate::wire::WireError;

impl Genesis {
    /// The genesis that `text` describes in TOML.
    ///
    /// Only `name` and the model have no default: `model = "nano"`, a `[model]` table or
    /// `[[tensor]]` entries. Lists that a genesis keeps in order may be in any order here.
    pub fn from_toml(text: &str) -> Result<Self, GenesisError> {
        if text.len() > GENESIS_BYTES_MAX {
            let (bytes, max) = (text.len(), GENESIS_BYTES_MAX);
            return Err(WireError::TooLong { bytes, max }.into());
        }
        let raw: Raw = toml::from_str(text)
            .map_err(|error| GenesisError::Toml(error.to_string().trim_end().into()))?;
        let genesis = read::genesis(raw)?;
        genesis.validate()?;
        Ok(genesis)
    }

    /// TOML that [`Genesis::from_toml`] reads as this genesis, with every value spelled out.
    pub fn to_toml(&self) -> String {
        toml::to_string(&write::raw(self)).expect("a genesis has only what TOML can hold")
    }
}
