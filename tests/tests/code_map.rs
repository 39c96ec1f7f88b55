//! The code map of docs/ARCHITECTURE.md is true: its files are there, and its names are in them.

#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn every_row_of_the_code_map_is_true() {
    let text = fs::read_to_string(root().join("docs/ARCHITECTURE.md")).unwrap();
    let rows = rows(&text);
    assert!(rows.len() > 80, "only {} rows were found", rows.len());
    let wrong: Vec<String> = rows.iter().flat_map(|row| row.wrong(&root())).collect();
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn a_row_that_is_wrong_is_found() {
    let text = "| where is ... | file below `protocol/src/` | names |\n|---|---|---|\n\
                | merging | `outer/merge.rs` | `merge`, `Engine::no_such_name` |\n\
                | nothing | `{ledger,no_such_file}.rs` | `Ledger` |\n";
    let wrong: Vec<String> = rows(text).iter().flat_map(|row| row.wrong(&root())).collect();
    assert_eq!(
        wrong,
        [
            "merging: no_such_name is in none of its files",
            "nothing: there is no protocol/src/no_such_file.rs"
        ]
    );
}

/// One line of a table that says where things are.
struct Row {
    what: String,
    files: Vec<String>,
    names: Vec<String>,
}

impl Row {
    fn wrong(&self, root: &Path) -> Vec<String> {
        let missing = self.files.iter().filter(|file| !root.join(file).exists());
        let mut wrong: Vec<String> =
            missing.map(|file| format!("{}: there is no {file}", self.what)).collect();
        let text: String = self.files.iter().map(|file| all_text(&root.join(file))).collect();
        for name in &self.names {
            let last = name.rsplit("::").next().unwrap();
            if !has_word(&text, last) {
                wrong.push(format!("{}: {last} is in none of its files", self.what));
            }
        }
        wrong
    }
}

/// The rows of all tables whose second column says what its files are below.
fn rows(text: &str) -> Vec<Row> {
    let mut below = None;
    let mut rows = Vec::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        if !line.starts_with('|') {
            below = None;
        } else if let Some(base) = cells.get(1).and_then(|cell| cell.strip_prefix("file below ")) {
            below = Some(base.trim_matches('`').to_owned());
        } else if let (Some(base), [what, files, names]) = (&below, cells.as_slice()) {
            let files = quoted(files).iter().flat_map(|file| expand(file)).collect::<Vec<_>>();
            let files = files.iter().map(|file| format!("{base}{file}")).collect();
            rows.push(Row { what: (*what).to_owned(), files, names: quoted(names) });
        }
    }
    rows
}

/// What stands between backticks.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// `a/{b,c}.rs` means `a/b.rs` and `a/c.rs`.
fn expand(file: &str) -> Vec<String> {
    match file.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?))) {
        Some((before, (choices, after))) => {
            choices.split(',').map(|choice| format!("{before}{choice}{after}")).collect()
        }
        None => vec![file.to_owned()],
    }
}

fn all_text(path: &Path) -> String {
    match fs::read_dir(path) {
        Ok(entries) => entries.map(|entry| all_text(&entry.unwrap().path())).collect(),
        Err(_) => fs::read_to_string(path).unwrap_or_default(),
    }
}

fn has_word(text: &str, word: &str) -> bool {
    let inside = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(inside) && !text[at + word.len()..].starts_with(inside)
    })
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
