//! What an island needs to go on after a restart, as a folder that other tools can read too.
//!
//! Parameters and moments are safetensors files with the tensors' own names; `island.json` says
//! where in the data the island was and what the files' hashes are.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use atoll_protocol::genesis::Genesis;
use safetensors::tensor::{SafeTensors, TensorView};
use safetensors::{Dtype, serialize};
use serde::{Deserialize, Serialize};

use super::IslandError;
use super::compute::State;
use super::cpu::optimiser::moments::Moments;
use super::data::Cursor;
use super::layout::Layout;

/// How far an island is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    pub(super) steps: u64,
    pub(super) tokens: u64,
    pub(super) cursor: Cursor,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    version: u32,
    run: String,
    position: Position,
    /// Steps that each tensor's moments have seen, in name order.
    moment_steps: Vec<u64>,
    /// For each file, the hash of its bytes.
    files: Vec<(String, String)>,
}

/// Writes a checkpoint into the folder `into`.
pub(super) fn write(
    into: &Path,
    genesis: &Genesis,
    layout: &Layout,
    parameters: &[f32],
    moments: &Moments,
    position: &Position,
) -> Result<(), IslandError> {
    let Moments { first, second, steps } = moments;
    let mut files = Vec::new();
    for (name, values) in [PARAMETERS, FIRST, SECOND].into_iter().zip([parameters, first, second]) {
        let bytes = encode(layout, values)?;
        write_file(&into.join(name), &bytes)?;
        files.push((name.to_owned(), blake3::hash(&bytes).to_hex().to_string()));
    }
    let run = genesis.run_id().to_hex();
    let manifest =
        Manifest { version: VERSION, run, position: *position, moment_steps: steps.clone(), files };
    let text = serde_json::to_vec_pretty(&manifest).expect("a manifest is plain data");
    write_file(&into.join(MANIFEST), &text)
}

/// Reads a checkpoint of this run; nothing of a torn, foreign or altered one is used.
pub(super) fn read(
    from: &Path,
    genesis: &Genesis,
    layout: &Layout,
) -> Result<(State, Position), IslandError> {
    let path = from.join(MANIFEST);
    let manifest: Manifest = serde_json::from_slice(&read_file(&path)?)
        .map_err(|error| refuse(&path, format!("not a checkpoint: {error}")))?;
    if manifest.version != VERSION {
        let reason = format!("its version is {}, this program reads {VERSION}", manifest.version);
        return Err(refuse(&path, reason));
    }
    if manifest.run != genesis.run_id().to_hex() {
        return Err(refuse(&path, "it is of another run"));
    }
    if manifest.moment_steps.len() != layout.tensors().len() {
        return Err(refuse(&path, "it is of a model with other tensors"));
    }
    let load = |name: &str| {
        let path = from.join(name);
        let bytes = read_file(&path)?;
        let hash = blake3::hash(&bytes).to_hex().to_string();
        if !manifest.files.iter().any(|(file, listed)| file == name && *listed == hash) {
            return Err(refuse(&path, "it is torn or was altered"));
        }
        decode(&path, layout, &bytes)
    };
    let parameters = load(PARAMETERS)?;
    let moments =
        Moments { first: load(FIRST)?, second: load(SECOND)?, steps: manifest.moment_steps };
    Ok((State { parameters, moments }, manifest.position))
}

fn encode(layout: &Layout, values: &[f32]) -> Result<Vec<u8>, IslandError> {
    let views = layout.tensors().iter().map(|place| {
        let bytes = bytemuck::cast_slice(&values[place.range.clone()]);
        let view = TensorView::new(Dtype::F32, place.shape.clone(), bytes);
        (place.name.clone(), view.expect("a tensor has as many values as its sides say"))
    });
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    serialize(views, Some(metadata)).map_err(|error| IslandError::Checkpoint(error.to_string()))
}

fn decode(path: &Path, layout: &Layout, bytes: &[u8]) -> Result<Vec<f32>, IslandError> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| refuse(path, error))?;
    let mut values = vec![0.0; layout.elements()];
    for place in layout.tensors() {
        let tensor = file.tensor(&place.name).map_err(|error| refuse(path, error))?;
        if tensor.dtype() != Dtype::F32 || tensor.shape() != place.shape {
            let reason = format!("tensor {} has another shape than the run's", place.name);
            return Err(refuse(path, reason));
        }
        let into = bytemuck::cast_slice_mut(&mut values[place.range.clone()]);
        into.copy_from_slice(tensor.data());
    }
    Ok(values)
}

fn refuse(path: &Path, reason: impl ToString) -> IslandError {
    IslandError::Checkpoint(format!("{}: {}", path.display(), reason.to_string()))
}

fn read_file(path: &Path) -> Result<Vec<u8>, IslandError> {
    fs::read(path).map_err(|source| IslandError::File { path: path.to_owned(), source })
}

/// Writes and waits until the bytes are on the disk: the folder is about to replace another.
fn write_file(path: &Path, bytes: &[u8]) -> Result<(), IslandError> {
    let write = || {
        let mut file = fs::File::create(path)?;
        std::io::Write::write_all(&mut file, bytes)?;
        file.sync_all()
    };
    write().map_err(|source| IslandError::File { path: path.to_owned(), source })
}

const MANIFEST: &str = "island.json";
const PARAMETERS: &str = "model.safetensors";
const FIRST: &str = "first-moments.safetensors";
const SECOND: &str = "second-moments.safetensors";
const VERSION: u32 = 1;
