//! Writes one document: expands rules, remembers, and keeps articles and capitals right.

use atoll_protocol::rng::Rng;

use super::grammar::{Grammar, Piece, RuleId};
use super::memory::{Memory, Slot};

/// Writes one document.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    grammar: &'a Grammar,
    /// What the document remembers.
    pub(super) memory: Memory,
    /// Where every choice comes from.
    pub(super) rng: Rng,
    out: &'a mut Vec<u8>,
    article: bool,
    capital: bool,
}

impl<'a> Writer<'a> {
    /// A writer at the end of `out`.
    pub(super) fn new(grammar: &'a Grammar, rng: Rng, out: &'a mut Vec<u8>) -> Self {
        Self { grammar, memory: Memory::default(), rng, out, article: false, capital: false }
    }

    /// Writes an expansion of the rule called `name`.
    pub(super) fn say(&mut self, name: &str) {
        self.expand(self.grammar.id(name));
    }

    /// Writes `text` as it stands, after the article or capital that waits for it.
    pub(super) fn push(&mut self, text: &str) {
        let Some(&first) = text.as_bytes().first() else { return };
        if self.article {
            self.article = false;
            let an = matches!(first.to_ascii_lowercase(), b'a' | b'e' | b'i' | b'o' | b'u')
                || text.starts_with("honest");
            self.push(if an { "an " } else { "a " });
        }
        let start = self.out.len();
        self.out.extend_from_slice(text.as_bytes());
        if self.capital {
            self.capital = false;
            self.out[start].make_ascii_uppercase();
        }
    }

    /// Ends the line, without a space before the end.
    pub(super) fn line_end(&mut self) {
        while self.out.last().is_some_and(|byte| matches!(byte, b' ' | b'\n')) {
            self.out.pop();
        }
        self.out.push(b'\n');
    }

    /// Writes what is remembered under `slot`.
    pub(super) fn recall(&mut self, slot: Slot) {
        let value = self.memory.read(slot).to_owned();
        self.push(&value);
    }

    /// Remembers an expansion of the rule called `name` without writing it.
    pub(super) fn bind(&mut self, slot: Slot, name: &str) {
        let value = self.draw(name);
        self.memory.write(slot, &value);
    }

    /// An expansion of the rule called `name`, not written.
    pub(super) fn draw(&mut self, name: &str) -> String {
        let id = self.grammar.id(name);
        self.aside(|writer| writer.expand(id))
    }

    /// Expansions of the rule called `name`, all different.
    pub(super) fn draw_different(&mut self, name: &str, count: usize) -> Vec<String> {
        let mut drawn: Vec<String> = Vec::with_capacity(count);
        while drawn.len() < count {
            let next = self.draw(name);
            if !drawn.contains(&next) {
                drawn.push(next);
            }
        }
        drawn
    }

    fn expand(&mut self, id: RuleId) {
        let grammar = self.grammar;
        let rule = grammar.rule(id);
        let mut bound = rule.alternatives.len() as u64;
        if rule.skewed {
            // Drawing the bound first favours small indices, as real words do: the model learns
            // the frequent ones soon and the rare ones late.
            bound = self.rng.below(bound) + 1;
        }
        let chosen = usize::try_from(self.rng.below(bound)).expect("below a length");
        self.pieces(&rule.alternatives[chosen]);
    }

    fn pieces(&mut self, pieces: &[Piece]) {
        for piece in pieces {
            match piece {
                Piece::Text(text) => self.push(text),
                Piece::Rule(id) => self.expand(*id),
                Piece::Slot(slot) => self.recall(*slot),
                Piece::Pronoun(character, form) => {
                    self.push(self.memory.pronoun(*character, *form));
                }
                Piece::Bind(slot, value) => {
                    let value = self.aside(|writer| writer.pieces(value));
                    self.memory.write(*slot, &value);
                }
                Piece::Article => self.article = true,
                Piece::Capital => self.capital = true,
            }
        }
    }

    /// What `write` writes, taken out of the document again.
    fn aside(&mut self, write: impl FnOnce(&mut Self)) -> String {
        let (article, capital) = (self.article, self.capital);
        (self.article, self.capital) = (false, false);
        let start = self.out.len();
        write(self);
        let value = String::from_utf8(self.out.split_off(start)).expect("rules are ASCII");
        (self.article, self.capital) = (article, capital);
        value
    }
}
