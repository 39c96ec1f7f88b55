//! Rules with slots, compiled once, expanded with a seeded generator.
//!
//! A rule's alternatives are plain text with marks:
//! - `<rule>` expands another rule or draws from a list of words;
//! - `{slot}` writes what a document remembers; `{a.he}`, `{a.him}`, `{a.his}` are the pronouns
//!   that agree with a character;
//! - `[slot=text]` remembers the expansion of `text` and writes nothing;
//! - `@` is the article of the word that follows, `^` makes the letter that follows a capital;
//! - `_` is a space where a line begins or ends with one, `|` ends a line.

use std::collections::BTreeMap;

use super::memory::{Character, Form, Slot};

/// A compiled grammar.
#[derive(Debug)]
pub(super) struct Grammar {
    rules: Vec<Rule>,
    names: BTreeMap<&'static str, RuleId>,
}

/// A rule of a [`Grammar`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RuleId(usize);

/// What a rule may become.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) alternatives: Vec<Vec<Piece>>,
    /// Whether the first alternatives are drawn more often.
    pub(super) skewed: bool,
}

/// A part of an alternative.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// As it stands.
    Text(&'static str),
    /// Another rule.
    Rule(RuleId),
    /// What the document remembers.
    Slot(Slot),
    /// The pronoun of a character.
    Pronoun(Character, Form),
    /// Remember the expansion of these.
    Bind(Slot, Vec<Self>),
    /// "a" or "an".
    Article,
    /// A capital letter follows.
    Capital,
}

impl Grammar {
    /// Compiles rules, of which one alternative stands in a line, and lists of words, which stand
    /// between commas. Lines that begin with `#` are comments.
    ///
    /// # Panics
    ///
    /// If a rule names what does not exist. The rules are constants, so a test finds that.
    pub(super) fn new(rules: &'static str, words: &'static str) -> Self {
        let written = sections(rules);
        let listed = sections(words);
        let names: BTreeMap<_, _> = written
            .iter()
            .chain(&listed)
            .enumerate()
            .map(|(index, (name, _))| (*name, RuleId(index)))
            .collect();
        assert_eq!(names.len(), written.len() + listed.len(), "two rules have one name");
        let written = written.iter().map(|(_, lines)| Rule {
            alternatives: lines.iter().map(|line| compile(line, &names)).collect(),
            skewed: false,
        });
        let listed = listed.iter().map(|(_, lines)| Rule {
            alternatives: lines
                .iter()
                .flat_map(|line| line.split(','))
                .map(str::trim)
                .filter(|word| !word.is_empty())
                .map(|word| vec![Piece::Text(word)])
                .collect(),
            skewed: true,
        });
        Self { rules: written.chain(listed).collect(), names }
    }

    /// The rule called `name`.
    ///
    /// # Panics
    ///
    /// If there is none; names are constants too.
    pub(super) fn id(&self, name: &str) -> RuleId {
        *self.names.get(name).unwrap_or_else(|| panic!("no rule is called {name}"))
    }

    /// What a rule may become.
    pub(super) fn rule(&self, id: RuleId) -> &Rule {
        &self.rules[id.0]
    }
}

/// Names, each with the lines that are indented below it.
fn sections(text: &'static str) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut sections: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix("  ") {
            Some(line) => sections.last_mut().expect("a name comes first").1.push(line),
            None => sections.push((line.trim_end_matches(':'), Vec::new())),
        }
    }
    sections
}

fn compile(text: &'static str, names: &BTreeMap<&'static str, RuleId>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(MARKS) {
        if at > 0 {
            pieces.push(Piece::Text(&rest[..at]));
        }
        let (mark, after) = rest[at..].split_at(1);
        let (piece, length) = match mark {
            "@" => (Piece::Article, 0),
            "_" => (Piece::Text(" "), 0),
            "|" => (Piece::Text("\n"), 0),
            "^" => (Piece::Capital, 0),
            "<" => {
                let name = inside(after, '>');
                let id = names.get(name).unwrap_or_else(|| panic!("no rule is called {name}"));
                (Piece::Rule(*id), name.len() + 1)
            }
            "{" => {
                let name = inside(after, '}');
                (slot(name), name.len() + 1)
            }
            _ => {
                let binding = inside(after, ']');
                let (name, value) = binding.split_once('=').expect("a binding has a value");
                let slot = Slot::named(name).unwrap_or_else(|| panic!("no slot is called {name}"));
                (Piece::Bind(slot, compile(value, names)), binding.len() + 1)
            }
        };
        pieces.push(piece);
        rest = &after[length..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    pieces
}

fn inside(text: &'static str, close: char) -> &'static str {
    text.split_once(close).map(|(inside, _)| inside).expect("marks are closed")
}

fn slot(name: &str) -> Piece {
    let pronoun = || {
        let (character, form) = name.split_once('.')?;
        Some(Piece::Pronoun(Character::named(character)?, Form::named(form)?))
    };
    Slot::named(name)
        .map(Piece::Slot)
        .or_else(pronoun)
        .unwrap_or_else(|| panic!("no slot is called {name}"))
}

const MARKS: [char; 7] = ['<', '{', '[', '@', '^', '_', '|'];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_become_pieces() {
        let rules = "# One rule.\nx:\n  ^@<w>, {a.his} [item=<w>]{item}._\n";
        let grammar = Grammar::new(rules, "w:\n  cup, owl,\n  old boot\n");
        let id = grammar.id("w");
        assert_eq!(
            grammar.rule(grammar.id("x")).alternatives[0],
            [
                Piece::Capital,
                Piece::Article,
                Piece::Rule(id),
                Piece::Text(", "),
                Piece::Pronoun(Character::First, Form::His),
                Piece::Text(" "),
                Piece::Bind(Slot::Item, vec![Piece::Rule(id)]),
                Piece::Slot(Slot::Item),
                Piece::Text("."),
                Piece::Text(" "),
            ]
        );
        assert_eq!(grammar.rule(id).alternatives.len(), 3);
    }

    #[test]
    #[should_panic(expected = "no rule is called y")]
    fn a_missing_rule_is_found() {
        Grammar::new("x:\n  <y>\n", "");
    }
}
