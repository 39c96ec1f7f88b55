//! The event log of a node, read while it grows.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Reads the lines that were added to a log since it last looked.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    read: u64,
    /// The beginning of a line whose end is not there yet.
    begun: Vec<u8>,
}

impl Journal {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), read: 0, begun: Vec::new() }
    }

    /// What was added. A log that became shorter was begun anew.
    pub(super) fn news(&mut self) -> Vec<Value> {
        let Ok(mut file) = File::open(&self.path) else { return Vec::new() };
        let length = file.metadata().map_or(0, |about| about.len());
        if length < self.read {
            self.read = 0;
            self.begun.clear();
        }
        let mut added = Vec::new();
        let read = file
            .seek(SeekFrom::Start(self.read))
            .and_then(|_| file.take(AT_ONCE).read_to_end(&mut added));
        self.read += read.unwrap_or(0) as u64;
        self.begun.append(&mut added);
        let Some(end) = self.begun.iter().rposition(|byte| *byte == b'\n') else {
            return Vec::new();
        };
        let rest = self.begun.split_off(end + 1);
        let whole = std::mem::replace(&mut self.begun, rest);
        whole
            .split(|byte| *byte == b'\n')
            .filter_map(|it| serde_json::from_slice(it).ok())
            .collect()
    }
}

/// More than a node writes between two looks.
const AT_ONCE: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn whole_lines_come_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut journal = Journal::new(&path);
        assert_eq!(journal.news(), Vec::<Value>::new());
        fs::write(&path, "1\n2\n3").unwrap();
        assert_eq!(journal.news(), [1, 2].map(Value::from));
        fs::write(&path, "1\n2\n34\nbroken {\n5\n").unwrap();
        assert_eq!(journal.news(), [34, 5].map(Value::from));
        assert_eq!(journal.news(), Vec::<Value>::new());
        fs::write(&path, "6\n").unwrap();
        assert_eq!(journal.news(), [6].map(Value::from));
    }
}
