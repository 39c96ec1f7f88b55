//! Files and folders of text, read once from front to end.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde_json::Value;

use super::super::{DataError, Tokenizer, keyed};

/// A file, or all files of a folder and of the folders in it, in the order of their names.
///
/// Hidden files and linked folders are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The file or the folder.
    pub path: PathBuf,
    /// The field of JSONL files that holds the text; none if their names tell which files are
    /// JSONL, and the field is `text`.
    pub field: Option<String>,
}

/// A stretch of text.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct Part {
    /// The text; long ones come in several parts.
    pub(in super::super) text: String,
    /// Whether it ends its document.
    pub(in super::super) last: bool,
    /// Bytes of the source that it took.
    pub(in super::super) bytes: u64,
}

/// One file as it was found.
#[derive(Debug)]
pub(in super::super) struct Found {
    path: PathBuf,
    size: u64,
    modified: u128,
}

type Take<'a> = dyn FnMut(Part) -> Result<(), DataError> + 'a;

impl Files {
    /// Every file there is, or an error if there is none.
    pub(in super::super) fn find(&self) -> Result<Vec<Found>, DataError> {
        let mut found = Vec::new();
        if fs::metadata(&self.path).map_err(DataError::file(&self.path))?.is_dir() {
            walk(&self.path, &mut found)?;
        } else {
            found.push(Found::new(&self.path)?);
        }
        if found.iter().all(|file| file.size == 0) {
            return Err(DataError::Empty { path: self.path.clone() });
        }
        Ok(found)
    }

    /// Changes when the files or the tokenizer change: paths, sizes and times, not contents.
    pub(in super::super) fn fingerprint(&self, found: &[Found], tokenizer: &Tokenizer) -> [u8; 32] {
        let field = self.field.as_deref().unwrap_or("\0by name");
        let mut parts = vec![tokenizer.digest().to_vec(), field.as_bytes().to_vec()];
        for file in found {
            parts.push(file.path.as_os_str().as_encoded_bytes().to_vec());
            parts.push(file.size.to_le_bytes().to_vec());
            parts.push(file.modified.to_le_bytes().to_vec());
        }
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        keyed("atoll 2026 fingerprint of files v1", &parts)
    }

    /// Reads all of `found` in order.
    pub(in super::super) fn read(
        &self,
        found: &[Found],
        take: &mut Take<'_>,
    ) -> Result<(), DataError> {
        for file in found {
            let named = file.path.extension().is_some_and(|end| end == "jsonl" || end == "ndjson");
            match &self.field {
                Some(field) => read_lines(&file.path, field, take)?,
                None if named => read_lines(&file.path, FIELD, take)?,
                None => read_text(&file.path, take)?,
            }
        }
        Ok(())
    }
}

impl Found {
    fn new(path: &Path) -> Result<Self, DataError> {
        let metadata = fs::metadata(path).map_err(DataError::file(path))?;
        let modified = metadata.modified().ok();
        let since = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Ok(Self {
            path: path.to_owned(),
            size: metadata.len(),
            modified: since.map_or(0, |since| since.as_nanos()),
        })
    }

    /// Bytes in it.
    pub(in super::super) fn size(&self) -> u64 {
        self.size
    }
}

fn walk(folder: &Path, found: &mut Vec<Found>) -> Result<(), DataError> {
    let entries = fs::read_dir(folder).map_err(DataError::file(folder))?;
    let mut entries: Vec<_> = entries.collect::<Result<_, _>>().map_err(DataError::file(folder))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if entry.file_type().map_err(DataError::file(&path))?.is_dir() {
            walk(&path, found)?;
        } else if fs::metadata(&path).is_ok_and(|metadata| metadata.is_file()) {
            found.push(Found::new(&path)?);
        }
    }
    Ok(())
}

/// A plain text is one document, read in parts that end where a line does if they can.
fn read_text(path: &Path, take: &mut Take<'_>) -> Result<(), DataError> {
    let mut file = File::open(path).map_err(DataError::file(path))?;
    let mut buffer = Vec::with_capacity(2 * PART);
    let mut before = 0;
    let mut any = false;
    loop {
        let mut limited = (&mut file).take(PART as u64);
        let read = limited.read_to_end(&mut buffer).map_err(DataError::file(path))?;
        let end = read == 0;
        let wrong = |valid: usize| DataError::NotUtf8 {
            path: path.to_owned(),
            byte: before + valid as u64,
        };
        let valid = match std::str::from_utf8(&buffer) {
            Ok(_) => buffer.len(),
            Err(error) if error.error_len().is_none() && !end => error.valid_up_to(),
            Err(error) => return Err(wrong(error.valid_up_to())),
        };
        let length = if end { valid } else { cut(&buffer[..valid]) };
        let text = String::from_utf8(buffer.drain(..length).collect());
        let text = text.map_err(|error| wrong(error.utf8_error().valid_up_to()))?;
        any |= !text.is_empty();
        before += length as u64;
        if any && (end || !text.is_empty()) {
            take(Part { text, last: end, bytes: length as u64 })?;
        }
        if end {
            return Ok(());
        }
    }
}

/// Where to cut: after a line, else before a space, else at the end.
fn cut(valid: &[u8]) -> usize {
    let line = valid.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
    let space = || valid.iter().rposition(|byte| *byte == b' ').filter(|at| *at > 0);
    line.or_else(space).unwrap_or(valid.len())
}

/// Every line that is not empty is a document.
fn read_lines(path: &Path, field: &str, take: &mut Take<'_>) -> Result<(), DataError> {
    let mut reader = BufReader::new(File::open(path).map_err(DataError::file(path))?);
    let mut buffer = Vec::new();
    let (mut line, mut before) = (0, 0);
    loop {
        buffer.clear();
        let bytes = reader.read_until(b'\n', &mut buffer).map_err(DataError::file(path))? as u64;
        if bytes == 0 {
            return Ok(());
        }
        line += 1;
        let text = std::str::from_utf8(&buffer).map_err(|error| DataError::NotUtf8 {
            path: path.to_owned(),
            byte: before + error.valid_up_to() as u64,
        })?;
        before += bytes;
        if text.trim().is_empty() {
            continue;
        }
        let mut value: Value = serde_json::from_str(text).map_err(|error| DataError::NotJson {
            path: path.to_owned(),
            line,
            reason: error.to_string(),
        })?;
        let Some(Value::String(text)) = value.get_mut(field).map(Value::take) else {
            return Err(DataError::NoField { path: path.to_owned(), line, field: field.into() });
        };
        take(Part { text, last: true, bytes })?;
    }
}

/// Bytes read at once: enough for one core to be busy with, so that all of them can be.
const PART: usize = 64 * 1024;

/// Where JSONL usually keeps its text.
const FIELD: &str = "text";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(path: &Path, field: Option<&str>) -> Result<Vec<(String, bool)>, DataError> {
        let files = Files { path: path.to_owned(), field: field.map(str::to_owned) };
        let found = files.find()?;
        let (mut parts, mut bytes) = (Vec::new(), 0);
        files.read(&found, &mut |part| {
            bytes += part.bytes;
            parts.push((part.text, part.last));
            Ok(())
        })?;
        assert!(bytes <= found.iter().map(Found::size).sum());
        Ok(parts)
    }

    fn written(name: &str, content: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        (folder, path)
    }

    #[test]
    fn a_folder_is_read_in_the_order_of_its_names() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("b/deep")).unwrap();
        fs::create_dir_all(folder.path().join(".git")).unwrap();
        for (name, text) in [
            ("c.txt", "three"),
            ("b/deep/x.md", "two"),
            ("a.txt", "one"),
            ("empty.txt", ""),
            ("d.jsonl", "{\"text\": \"four\"}\n\n{\"text\": \"five\", \"n\": [1]}"),
            (".hidden", "no"),
            (".git/config", "no"),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let whole: String =
            read(folder.path(), None).unwrap().into_iter().map(|(text, _)| text + ".").collect();
        assert_eq!(whole, "one..two..three..four.five.");
    }

    #[test]
    fn another_field_makes_every_file_jsonl() {
        let (_folder, path) = written("x.json", b"{\"body\": \"caf\\u00e9\"}\n");
        assert_eq!(read(&path, Some("body")).unwrap(), [("caf\u{e9}".to_owned(), true)]);
    }

    #[test]
    fn bad_input_is_named() {
        let message = |name: &str, content: &[u8]| {
            let (_folder, path) = written(name, content);
            let error = read(&path, None).unwrap_err();
            assert!(!error.hint().is_empty());
            let message = error.to_string();
            message[message.find(name).unwrap()..].to_owned()
        };
        assert_eq!(message("a.txt", b""), "a.txt: there is no text in it");
        assert_eq!(message("a.txt", b"good\xffbad"), "a.txt: not UTF-8 at byte 4");
        assert_eq!(message("a.txt", b"cut \xe2\x82"), "a.txt: not UTF-8 at byte 4");
        let mut long = "\u{e9}".repeat(100_000).into_bytes();
        long.push(0x80);
        assert_eq!(message("a.txt", &long), "a.txt: not UTF-8 at byte 200000");
        assert_eq!(
            message("a.jsonl", b"{\"text\": \"x\"}\n{\"body\": 1}\n"),
            "a.jsonl: line 2 has no field \"text\" with a string in it"
        );
        assert_eq!(
            message("a.jsonl", b"{\"text\": 7}\n"),
            "a.jsonl: line 1 has no field \"text\" with a string in it"
        );
        assert!(message("a.jsonl", b"\n{\"text\"").starts_with("a.jsonl: line 2 is not JSON: "));
        assert_eq!(
            message("a.jsonl", b"{\"text\": \"x\"}\n{\"\xff"),
            "a.jsonl: not UTF-8 at byte 16"
        );
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(read(folder.path(), None), Err(DataError::Empty { .. })));
        let gone = folder.path().join("gone");
        assert!(matches!(read(&gone, None), Err(DataError::Missing { .. })));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn parts_add_up_to_the_text(
            text in proptest::collection::vec("[ -~\u{e9}\u{4e2d}]{0,900}\n?", 1..200),
            times in 1_usize..4,
        ) {
            let text = text.concat().repeat(times) + "end";
            let (_folder, path) = written("a.txt", text.as_bytes());
            let parts = read(&path, None).unwrap();
            let lasts = parts.iter().filter(|(_, last)| *last).count();
            prop_assert_eq!((lasts, parts.last().map(|part| part.1)), (1, Some(true)));
            prop_assert_eq!(parts.into_iter().map(|(text, _)| text).collect::<String>(), text);
        }
    }
}
