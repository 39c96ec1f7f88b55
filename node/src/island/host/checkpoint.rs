//! What an island's thread keeps beside the island itself: the accounts of its fragments.

use std::fs;
use std::path::Path;

use atoll_protocol::engine::Resumed;
use atoll_protocol::genesis::Genesis;
use atoll_protocol::id::{ContentId, FragmentId};
use atoll_protocol::island::Account;
use atoll_protocol::pool::Inline;
use serde::{Deserialize, Serialize};

use super::Accounts;
use crate::island::exchange::Exchange;
use crate::island::layout::Layout;
use crate::island::{Island, IslandError};

/// Where the island stands with one fragment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fragment {
    /// The last own payload that was captured.
    pub last_capture: Option<ContentId>,
    /// Steps since.
    pub steps: u32,
    /// Tokens since.
    pub fresh: u64,
}

/// The accounts of a checkpoint.
#[derive(Debug)]
pub struct Checkpoint {
    fragments: Vec<Fragment>,
    captured: Vec<Vec<ContentId>>,
    /// The adopted outer versions, fragment after fragment.
    outer: Vec<f32>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    version: u32,
    fragments: Vec<Fragment>,
    captured: Vec<Vec<ContentId>>,
    /// The hash of the file of outer versions.
    outer: String,
}

/// Writes the accounts beside what the island saved.
pub(super) fn write(folder: &Path, accounts: &Accounts) -> Result<(), IslandError> {
    let mut outer: Vec<u8> = Vec::new();
    for account in (0..).map_while(|id| accounts.exchange.account(FragmentId(id))) {
        outer.extend_from_slice(bytemuck::cast_slice(account.outer()));
    }
    let manifest = Manifest {
        version: VERSION,
        fragments: accounts.fragments.clone(),
        captured: accounts.captured().map(<[ContentId]>::to_vec).collect(),
        outer: blake3::hash(&outer).to_hex().to_string(),
    };
    write_file(&folder.join(OUTER), &outer)?;
    let text = serde_json::to_vec_pretty(&manifest).expect("a manifest is plain data");
    write_file(&folder.join(MANIFEST), &text)
}

impl Checkpoint {
    /// Reads the accounts of a checkpoint of this run.
    pub fn read(folder: &Path, genesis: &Genesis) -> Result<Self, IslandError> {
        let layout = Layout::new(genesis);
        let path = folder.join(MANIFEST);
        let refuse =
            |reason: String| IslandError::Checkpoint(format!("{}: {reason}", path.display()));
        let manifest: Manifest = serde_json::from_slice(&read_file(&path)?)
            .map_err(|error| refuse(format!("not a checkpoint: {error}")))?;
        if manifest.version != VERSION {
            return Err(refuse(format!("its version is {}, not {VERSION}", manifest.version)));
        }
        let bytes = read_file(&folder.join(OUTER))?;
        if blake3::hash(&bytes).to_hex().to_string() != manifest.outer {
            return Err(refuse(format!("{OUTER} is torn or was altered")));
        }
        let count = genesis.fragment_map().fragments().len();
        let whole = bytes.len() == layout.elements() * size_of::<f32>();
        if !whole || manifest.fragments.len() != count || manifest.captured.len() != count {
            return Err(refuse("it is of another model".into()));
        }
        let mut outer = vec![0.0f32; layout.elements()];
        // The bytes may lie at any address, the values may not.
        bytemuck::cast_slice_mut(&mut outer).copy_from_slice(&bytes);
        let Manifest { fragments, captured, .. } = manifest;
        Ok(Self { fragments, captured, outer })
    }

    /// Own payloads that it counts on.
    pub fn captured(&self) -> impl Iterator<Item = ContentId> {
        self.captured.iter().flatten().copied()
    }

    /// What the engine is to be told when it starts.
    pub fn resumed(&self) -> Vec<Resumed> {
        let resumed = |it: &Fragment| Resumed {
            last_capture: it.last_capture,
            steps: it.steps,
            fresh: it.fresh,
        };
        self.fragments.iter().map(resumed).collect()
    }

    /// The accounts of an island that was restored from the same checkpoint.
    ///
    /// `last_capture` is what the engine remembers of each fragment: if a capture came after the
    /// checkpoint it contains what was fresh then, so that is taken out of the parameters.
    /// `payload` finds own payloads.
    pub fn accounts(
        &self,
        island: &mut dyn Island,
        genesis: &Genesis,
        last_capture: impl Fn(FragmentId) -> Option<ContentId>,
        payload: impl Fn(&ContentId) -> Option<Vec<u8>>,
    ) -> Result<Accounts, IslandError> {
        let layout = Layout::new(genesis);
        let mut accounts = Vec::new();
        let mut fragments = self.fragments.clone();
        for (fragment, state) in (0..).map(FragmentId).zip(&mut fragments) {
            let range = layout.fragment(fragment).ok_or(IslandError::NoFragment(fragment))?;
            let known = last_capture(fragment);
            // After a later capture the engine knows better what is pending, and says so with
            // the next adoption; a payload that was merged and pruned since is not missed.
            let needed = state.last_capture == known;
            let mut captured: Vec<Vec<u8>> = Vec::new();
            for id in &self.captured[fragment.index()] {
                match payload(id) {
                    Some(bytes) => captured.push(bytes),
                    None if needed => return Err(lost(format!("own payload {id} is gone"))),
                    None => {}
                }
            }
            let pending: Vec<&[u8]> = captured.iter().map(Vec::as_slice).collect();
            let account = Account::resume(&self.outer[range], &pending, genesis.codec, &Inline)
                .map_err(|error| lost(error.to_string()))?;
            if !needed {
                *state = Fragment { last_capture: known, steps: 0, fresh: 0 };
                let held = || account.outer().iter().zip(account.pending());
                island.change(fragment, &mut |local| {
                    let values = local.iter_mut().zip(held());
                    values.for_each(|(local, (outer, pending))| *local = outer + pending);
                })?;
            }
            accounts.push(account);
        }
        Ok(Accounts::with(Exchange::resume(accounts, genesis.codec), fragments))
    }
}

fn lost(reason: String) -> IslandError {
    IslandError::Checkpoint(reason)
}

fn read_file(path: &Path) -> Result<Vec<u8>, IslandError> {
    fs::read(path).map_err(|source| IslandError::File { path: path.to_owned(), source })
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), IslandError> {
    // The store makes the folder durable, on a thread that may wait.
    fs::write(path, bytes).map_err(|source| IslandError::File { path: path.to_owned(), source })
}

const MANIFEST: &str = "accounts.json";
const OUTER: &str = "outer.bin";
const VERSION: u32 = 1;
