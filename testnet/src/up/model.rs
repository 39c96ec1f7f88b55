//! The model that a swarm agreed on, as the folder of a lone island that `atoll eval` and
//! `atoll sample` read: for the outer state that is agreed on and not stable yet, which no node
//! keeps on its disk but in the checkpoint of its island.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use atoll_protocol::genesis::Genesis;
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};

use super::error::UpError;

/// Makes `into` from the checkpoints of nodes that have left and agreed since a moment.
///
/// A checkpoint does not say of which version it is. One that was written after the islands agreed
/// holds what they agreed on, if its island had adopted that; those of several islands are the
/// same then. Older ones are not looked at: a node that took no step since does not save again.
pub(super) fn agreed(
    run_folders: &[PathBuf],
    since: SystemTime,
    genesis: &Genesis,
    into: &Path,
) -> Result<(), UpError> {
    let checkpoints = run_folders.iter().map(|it| it.join(CHECKPOINT));
    let mut fresh: Option<(PathBuf, Vec<u8>)> = None;
    for checkpoint in checkpoints.filter(|it| is_younger(&it.join(OUTER), since)) {
        let path = checkpoint.join(OUTER);
        let outer = fs::read(&path).map_err(UpError::file(&path))?;
        match &fresh {
            Some((_, other)) if *other != outer => {
                return Err(wrong(&path, "another island's is not the same"));
            }
            Some(_) => {}
            None => fresh = Some((checkpoint, outer)),
        }
    }
    let Some((checkpoint, outer)) = fresh else {
        return Err(wrong(into, "no checkpoint is young enough"));
    };
    let path = checkpoint.join(OUTER);
    let wanted = genesis.fragment_map().elements() * size_of::<f32>();
    if outer.len() != wanted {
        return Err(wrong(&path, &format!("{} bytes instead of {wanted}", outer.len())));
    }
    let parameters = encode(genesis, &outer).map_err(UpError::file(&path))?;
    make(&checkpoint, genesis, &parameters, into)
}

fn is_younger(path: &Path, since: SystemTime) -> bool {
    fs::metadata(path).and_then(|about| about.modified()).is_ok_and(|written| written > since)
}

fn wrong(path: &Path, what: &str) -> UpError {
    UpError::file(path)(std::io::Error::other(what.to_owned()))
}

fn make(
    checkpoint: &Path,
    genesis: &Genesis,
    parameters: &[u8],
    into: &Path,
) -> Result<(), UpError> {
    let folder = into.join(CHECKPOINT);
    fs::create_dir_all(&folder).map_err(UpError::file(&folder))?;
    let path = checkpoint.join(MANIFEST);
    let text = fs::read(&path).map_err(UpError::file(&path))?;
    let mut manifest: Value = serde_json::from_slice(&text)
        .map_err(|error| UpError::file(&path)(std::io::Error::other(error)))?;
    manifest["run"] = json!(genesis.run_id().to_hex());
    let files = manifest["files"].as_array().cloned().unwrap_or_default();
    let names = files.iter().filter_map(|file| file[0].as_str());
    let mut listed = Vec::new();
    for name in names {
        let (from, to) = (checkpoint.join(name), folder.join(name));
        let bytes = match name {
            PARAMETERS => parameters.to_vec(),
            _ => fs::read(&from).map_err(UpError::file(&from))?,
        };
        listed.push(json!([name, blake3::hash(&bytes).to_hex().to_string()]));
        fs::write(&to, bytes).map_err(UpError::file(&to))?;
    }
    manifest["files"] = Value::Array(listed);
    for (path, text) in [
        (folder.join(MANIFEST), manifest.to_string()),
        (into.join("island.toml"), SETTINGS.to_owned()),
        (into.join("genesis.toml"), genesis.to_toml()),
    ] {
        fs::write(&path, text).map_err(UpError::file(&path))?;
    }
    Ok(())
}

/// The parameters as a safetensors file, with the tensors' own names.
fn encode(genesis: &Genesis, outer: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut views = Vec::new();
    let mut start = 0;
    for fragment in genesis.fragment_map().fragments() {
        for piece in &fragment.pieces {
            let tensor = &genesis.tensors[piece.tensor];
            let from = (start + piece.start) * size_of::<f32>();
            let bytes = &outer[from..from + piece.len * size_of::<f32>()];
            let shape = tensor.shape.iter().map(|side| *side as usize).collect();
            let view = TensorView::new(Dtype::F32, shape, bytes).map_err(std::io::Error::other)?;
            views.push((tensor.name.clone(), view));
        }
        start += fragment.elements;
    }
    safetensors::serialize(views, None).map_err(std::io::Error::other)
}

const CHECKPOINT: &str = "checkpoint";
const MANIFEST: &str = "island.json";
const PARAMETERS: &str = "model.safetensors";
const OUTER: &str = "outer.bin";
/// What a lone island's folder says of how it was trained; nothing is trained here.
const SETTINGS: &str = "data = \"generated\"\naccumulate = 1\n";

#[cfg(test)]
mod tests {
    use atoll_protocol::genesis::Model;
    use safetensors::SafeTensors;

    use super::*;

    #[test]
    fn the_outer_state_becomes_the_parameters() {
        let genesis = Genesis::new("test", Model::preset("nano").unwrap());
        let home = tempfile::tempdir().unwrap();
        let checkpoint = home.path().join("run/checkpoint");
        fs::create_dir_all(&checkpoint).unwrap();
        let map = genesis.fragment_map();
        let values: Vec<f32> = (0..map.elements()).map(|index| index as f32).collect();
        let outer: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        fs::write(checkpoint.join(OUTER), outer).unwrap();
        fs::write(checkpoint.join(PARAMETERS), "old").unwrap();
        fs::write(checkpoint.join("first-moments.safetensors"), "moments").unwrap();
        let manifest = json!({
            "version": 1, "run": "other", "moment_steps": [3],
            "files": [[PARAMETERS, "x"], ["first-moments.safetensors", "y"]],
        });
        fs::write(checkpoint.join(MANIFEST), manifest.to_string()).unwrap();
        let into = home.path().join("model");
        let runs = [home.path().join("run")];
        let agree = |since| agreed(&runs, since, &genesis, &into);
        agree(SystemTime::UNIX_EPOCH).unwrap();

        let written = fs::read(into.join("checkpoint/model.safetensors")).unwrap();
        let last = map.fragments().last().unwrap();
        let piece = last.pieces.last().unwrap();
        let name = &genesis.tensors[piece.tensor].name;
        let file = SafeTensors::deserialize(&written).unwrap();
        let tail = &file.tensor(name).unwrap().data()[(piece.len - 1) * 4..];
        assert_eq!(tail, (map.elements() as f32 - 1.0).to_le_bytes());
        let manifest: Value =
            serde_json::from_slice(&fs::read(into.join("checkpoint/island.json")).unwrap())
                .unwrap();
        assert_eq!(manifest["run"], genesis.run_id().to_hex());
        assert_eq!(manifest["files"][0][1], blake3::hash(&written).to_hex().to_string());
        assert_eq!(manifest["moment_steps"], json!([3]));
        let text = fs::read_to_string(into.join("genesis.toml")).unwrap();
        assert_eq!(Genesis::from_toml(&text).unwrap().run_id(), genesis.run_id());
        let later = SystemTime::now() + std::time::Duration::from_secs(60);
        assert!(agree(later).is_err(), "it may be of before");
        fs::write(checkpoint.join(OUTER), "short").unwrap();
        assert!(agree(SystemTime::UNIX_EPOCH).is_err());
    }

    #[test]
    fn islands_whose_checkpoints_differ_have_no_agreed_model() {
        let genesis = Genesis::new("test", Model::preset("nano").unwrap());
        let home = tempfile::tempdir().unwrap();
        let runs = ["a", "b"].map(|name| home.path().join(name));
        for (run, outer) in runs.iter().zip(["one", "other"]) {
            fs::create_dir_all(run.join(CHECKPOINT)).unwrap();
            fs::write(run.join(CHECKPOINT).join(OUTER), outer).unwrap();
        }
        let error = agreed(&runs, SystemTime::UNIX_EPOCH, &genesis, &home.path().join("c"));
        assert!(error.unwrap_err().to_string().contains("not the same"));
    }
}
