//! The model that a swarm agreed on, as the folder of a lone island that `atoll eval` and
//! `atoll sample` read.

use std::fs;
use std::path::Path;

use atoll_protocol::genesis::Genesis;
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};

use super::error::UpError;

/// Makes `into` from the checkpoint of a node that has left: the outer state it adopted last.
pub(super) fn agreed(run_folder: &Path, genesis: &Genesis, into: &Path) -> Result<(), UpError> {
    let checkpoint = run_folder.join(CHECKPOINT);
    let path = checkpoint.join(OUTER);
    let outer = fs::read(&path).map_err(UpError::file(&path))?;
    let wanted = genesis.fragment_map().elements() * size_of::<f32>();
    if outer.len() != wanted {
        let reason = format!("{} bytes instead of {wanted}", outer.len());
        return Err(UpError::file(&path)(std::io::Error::other(reason)));
    }
    let parameters = encode(genesis, &outer).map_err(UpError::file(&path))?;
    make(&checkpoint, genesis, Some(&parameters), into)
}

/// Makes `into` from the folder of a lone island, as one of the run that `genesis` describes:
/// which text is held out depends on the run, and only losses on the same text compare.
pub(super) fn moved(lone: &Path, genesis: &Genesis, into: &Path) -> Result<(), UpError> {
    make(&lone.join(CHECKPOINT), genesis, None, into)
}

fn make(
    checkpoint: &Path,
    genesis: &Genesis,
    parameters: Option<&[u8]>,
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
        let bytes = match parameters {
            Some(bytes) if name == PARAMETERS => bytes.to_vec(),
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
const SETTINGS: &str = "data = \"generated\"\naccumulate = 1\nmuon = false\n";

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
        agreed(&home.path().join("run"), &genesis, &into).unwrap();

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
        fs::write(checkpoint.join(OUTER), "short").unwrap();
        assert!(agreed(&home.path().join("run"), &genesis, &into).is_err());
    }
}
