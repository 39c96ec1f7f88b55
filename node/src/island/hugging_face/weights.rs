//! Weights in safetensors files, one or several.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::Value;

use super::error::HuggingFaceError;
use super::{WEIGHTS, WEIGHTS_INDEX};

/// The tensors of a folder's safetensors files; values are read only when asked for.
#[derive(Debug)]
pub(super) struct Weights {
    places: BTreeMap<String, Place>,
    /// What errors about all files together name.
    pub(super) path: PathBuf,
}

#[derive(Debug)]
struct Place {
    file: PathBuf,
    start: u64,
    info: TensorInfo,
}

impl Weights {
    /// Reads the headers of a folder's files and checks that every file is whole.
    pub(super) fn open(folder: &Path) -> Result<Self, HuggingFaceError> {
        let (single, index) = (folder.join(WEIGHTS), folder.join(WEIGHTS_INDEX));
        let mut places = BTreeMap::new();
        if single.is_file() {
            read_header(&single, &mut places)?;
            return Ok(Self { places, path: single });
        }
        if !index.is_file() {
            return Err(HuggingFaceError::NoModel(folder.to_owned()));
        }
        for file in shards(folder, &index)? {
            read_header(&file, &mut places)?;
        }
        Ok(Self { places, path: index })
    }

    /// All names, in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.places.keys().map(String::as_str)
    }

    /// Whether there is a tensor of this name.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// The values of a tensor that [`Weights::contains`], if it has this shape.
    pub(super) fn read(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, HuggingFaceError> {
        let place = self.places.get(name).ok_or_else(|| HuggingFaceError::MissingTensors {
            path: self.path.clone(),
            names: vec![name.to_owned()],
        })?;
        let path = place.file.clone();
        if place.info.shape != shape {
            let (found, expected) = (place.info.shape.clone(), shape.to_vec());
            return Err(HuggingFaceError::TensorShape {
                path,
                name: name.to_owned(),
                found,
                expected,
            });
        }
        let bytes = place.bytes().map_err(HuggingFaceError::file(&path))?;
        let halves = || bytes.chunks_exact(2).map(|pair| [pair[0], pair[1]]);
        match place.info.dtype {
            Dtype::F32 => {
                let words = bytes.chunks_exact(4);
                Ok(words.map(|it| f32::from_le_bytes([it[0], it[1], it[2], it[3]])).collect())
            }
            Dtype::F16 => Ok(halves().map(|pair| f16::from_le_bytes(pair).to_f32()).collect()),
            Dtype::BF16 => Ok(halves().map(|pair| bf16::from_le_bytes(pair).to_f32()).collect()),
            other => {
                let (name, found) = (name.to_owned(), format!("{other:?}"));
                Err(HuggingFaceError::TensorType { path, name, found })
            }
        }
    }
}

impl Place {
    fn bytes(&self) -> std::io::Result<Vec<u8>> {
        let (begin, end) = self.info.data_offsets;
        let mut file = File::open(&self.file)?;
        file.seek(SeekFrom::Start(self.start + begin as u64))?;
        let mut bytes = vec![0; end - begin];
        file.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

/// The files that an index names, in order and each once; they must lie in the folder itself.
fn shards(folder: &Path, index: &Path) -> Result<Vec<PathBuf>, HuggingFaceError> {
    let text = std::fs::read_to_string(index).map_err(HuggingFaceError::file(index))?;
    let parsed: Value =
        serde_json::from_str(&text).map_err(|error| HuggingFaceError::malformed(index, error))?;
    let refuse = |reason: &str| HuggingFaceError::malformed(index, reason);
    let map = parsed["weight_map"].as_object().ok_or_else(|| refuse("`weight_map` is missing"))?;
    let mut files = Vec::new();
    for file in map.values() {
        let name = file.as_str().ok_or_else(|| refuse("a file's name is no text"))?;
        if Path::new(name).file_name().is_none_or(|plain| plain != name) {
            return Err(refuse(&format!("`{name}` is not the name of a file beside it")));
        }
        files.push(folder.join(name));
    }
    files.sort();
    files.dedup();
    Ok(files)
}

fn read_header(path: &Path, places: &mut BTreeMap<String, Place>) -> Result<(), HuggingFaceError> {
    let fail = || HuggingFaceError::file(path);
    let mut file = File::open(path).map_err(fail())?;
    let present = file.metadata().map_err(fail())?.len();
    let truncated = |promised| {
        let path = path.to_owned();
        HuggingFaceError::Truncated { path, present, promised }
    };
    let mut length = [0; 8];
    if present < 8 {
        return Err(truncated(8));
    }
    file.read_exact(&mut length).map_err(fail())?;
    let length = u64::from_le_bytes(length);
    if length > HEADER_BYTES_MAX {
        return Err(HuggingFaceError::malformed(path, "this is no safetensors file"));
    }
    let start = 8 + length;
    if present < start {
        return Err(truncated(start));
    }
    let mut header = Vec::new();
    file.take(length).read_to_end(&mut header).map_err(fail())?;
    let metadata: Metadata = serde_json::from_slice(&header)
        .map_err(|error| HuggingFaceError::malformed(path, format!("bad header: {error}")))?;
    let promised = start + metadata.data_len() as u64;
    if present < promised {
        return Err(truncated(promised));
    }
    for name in metadata.offset_keys() {
        let info = metadata.info(&name).cloned();
        let place = info.map(|info| Place { file: path.to_owned(), start, info });
        places.extend(place.map(|place| (name, place)));
    }
    Ok(())
}

/// What the safetensors crate takes as the longest header.
const HEADER_BYTES_MAX: u64 = 100_000_000;
