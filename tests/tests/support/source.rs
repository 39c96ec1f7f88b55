//! Looking at Rust source as text, far enough for rules about it.

use std::fs;
use std::path::{Path, PathBuf};

/// Every Rust file under `folder`, with its text, in path order.
pub(crate) fn files(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    found.sort();
    found
}

/// The lines of code: comments are blank, and so is what only tests compile.
///
/// Unit tests stand at the foot of a file, so everything from `#[cfg(test)]` on is theirs.
pub(crate) fn code(text: &str) -> Vec<&str> {
    text.lines()
        .take_while(|line| line.trim() != "#[cfg(test)]")
        .map(|line| line.split("//").next().unwrap_or(""))
        .collect()
}

/// Modules of its own crate that a text names after `crate::`, groups included.
pub(crate) fn imports(text: &str) -> Vec<String> {
    let code = code(text).join("\n");
    let mut modules = Vec::new();
    for after in code.split("crate::").skip(1) {
        if let Some(group) = after.strip_prefix('{') {
            modules.extend(group_members(group));
        } else {
            modules.push(word(after));
        }
    }
    modules.sort();
    modules.dedup();
    modules
}

/// Words of `tokens` that occur in a line of code, with the line's number.
pub(crate) fn forbidden<'a>(text: &str, tokens: &[&'a str]) -> Vec<(usize, &'a str)> {
    let mut found = Vec::new();
    for (index, line) in code(text).into_iter().enumerate() {
        let line = without_strings(line);
        for token in tokens {
            if has_word(&line, token) {
                found.push((index + 1, *token));
            }
        }
    }
    found
}

/// The first words of a group's members: `a::{b, c}, d` has `a` and `d`.
fn group_members(group: &str) -> Vec<String> {
    let mut members = Vec::new();
    let (mut depth, mut start) = (0, true);
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => start = true,
            _ if start && !character.is_whitespace() => {
                members.push(word(&group[at..]));
                start = false;
            }
            _ => {}
        }
    }
    members
}

fn word(text: &str) -> String {
    text.chars().take_while(|character| is_word(*character)).collect()
}

fn has_word(line: &str, token: &str) -> bool {
    line.match_indices(token).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + token.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// A line with everything between quotes taken out.
fn without_strings(line: &str) -> String {
    line.split('"').step_by(2).collect::<Vec<_>>().join("\"\"")
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}
