//! The genesis: everything the swarm must share, and nothing one node may choose.
//!
//! Human-readable TOML in, canonical bytes out; `RunId` is the hash of those bytes.

mod bound;
mod check;
mod data;
mod error;
mod init;
mod inner;
mod merge;
mod model;
mod raw;
mod roster;
mod rounds;
mod schedule;
mod tensor;
mod text;

pub use data::DataSpec;
pub use error::GenesisError;
pub use inner::{Inner, InnerOptimiser};
pub use merge::{Merge, MergeRule, Outer};
pub use model::{Model, PRESETS};
pub use roster::RosterPolicy;
pub use rounds::Rounds;
pub use schedule::{Schedule, ScheduleShape};
pub use tensor::{Init, TensorKind, TensorSpec};

use serde::{Deserialize, Serialize};

use crate::codec::Codec;
use crate::crypto;
use crate::fragment::FragmentMap;
use crate::id::{ContentId, RunId};
use crate::limits::GENESIS_BYTES_MAX;
use crate::wire::tag::Domain;
use crate::wire::version::WIRE_VERSION;
use crate::wire::{self, WireError};

/// The immutable, shared description of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Genesis {
    /// What people call the run.
    pub name: String,
    /// The model's shape.
    pub model: Model,
    /// The tensors, in name order, and how they begin.
    ///
    /// They are encoded even where they follow from the model, so that a node whose code would
    /// derive others refuses the genesis instead of training something else.
    pub tensors: Vec<TensorSpec>,
    /// Seed of the initial parameters.
    pub init_seed: u64,
    /// A safetensors file with the initial parameters, instead of the seed.
    pub init_content: Option<ContentId>,
    /// What the islands train on.
    pub data: DataSpec,
    /// The inner learning rate.
    pub schedule: Schedule,
    /// The inner optimiser.
    pub inner: Inner,
    /// Number of fragments.
    ///
    /// Default 4: evens out the bandwidth, and quality does not depend on it.
    pub fragments: u16,
    /// When rounds open, close and are forgotten.
    pub rounds: Rounds,
    /// The outer optimiser.
    pub outer: Outer,
    /// How a cut becomes one pseudo-gradient.
    pub merge: Merge,
    /// How pseudo-gradients are encoded.
    pub codec: Codec,
    /// Who may contribute.
    pub roster: RosterPolicy,
}

impl Genesis {
    /// An open run of `model` with a default for everything else.
    pub fn new(name: &str, model: Model) -> Self {
        Self::with_tensors(name, model, model.tensors())
    }

    /// An open run of [`Model::Custom`] over `tensors`, with a default for everything else.
    pub fn custom(name: &str, mut tensors: Vec<TensorSpec>) -> Self {
        tensors.sort_by(|one, other| one.name.cmp(&other.name));
        Self::with_tensors(name, Model::Custom, tensors)
    }

    fn with_tensors(name: &str, model: Model, tensors: Vec<TensorSpec>) -> Self {
        let data = DataSpec::default();
        Self {
            name: name.into(),
            model,
            init_seed: 0,
            init_content: None,
            data: DataSpec { sequence: model.context().unwrap_or(data.sequence), ..data },
            schedule: Schedule::default(),
            inner: Inner::default(),
            fragments: u16::try_from(tensors.len()).map_or(FRAGMENTS, |count| count.min(FRAGMENTS)),
            tensors,
            rounds: Rounds::default(),
            outer: Outer::default(),
            merge: Merge::default(),
            codec: Codec::Int4,
            roster: RosterPolicy::Open,
        }
    }

    /// The bytes that a genesis is stored and fetched as: the tag of its domain, the wire
    /// version, and the canonical encoding.
    ///
    /// Their plain hash is the run id, so whoever knows a run id can fetch the genesis as
    /// content, and what arrives is verified by that alone.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Domain::Genesis.tag().to_vec();
        bytes.extend_from_slice(&WIRE_VERSION.to_le_bytes());
        bytes.extend_from_slice(&wire::encode(self));
        bytes
    }

    /// The genesis that `bytes` encode, if they are exactly its [`Genesis::to_bytes`] and a run
    /// may have its values.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, GenesisError> {
        if bytes.len() > GENESIS_BYTES_MAX {
            let max = GENESIS_BYTES_MAX;
            return Err(WireError::TooLong { bytes: bytes.len(), max }.into());
        }
        let rest = bytes.strip_prefix(Domain::Genesis.tag()).ok_or(GenesisError::Tag)?;
        let (version, encoded) = rest.split_first_chunk().ok_or(WireError::Malformed)?;
        let version = u16::from_le_bytes(*version);
        if version != WIRE_VERSION {
            return Err(GenesisError::Version(version));
        }
        let genesis: Self = wire::decode(encoded, GENESIS_BYTES_MAX)?;
        genesis.validate()?;
        Ok(genesis)
    }

    /// The name of the run: the hash of this genesis.
    pub fn run_id(&self) -> RunId {
        RunId(crypto::hash(Domain::Genesis, &[&wire::encode(self)]))
    }

    /// How the tensors are split into fragments.
    pub fn fragment_map(&self) -> FragmentMap {
        FragmentMap::new(&self.tensors, self.fragments)
    }
}

/// Fragments of a run that does not say.
const FRAGMENTS: u16 = 4;
