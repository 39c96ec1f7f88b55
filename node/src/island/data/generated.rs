//! A corpus that needs no download: endless English-looking text from a seeded grammar.
//!
//! A document's number is all it takes to write it. Its people, places and things are introduced
//! early and referred to later, its sums are right, its brackets match and its songs rhyme, so a
//! model finds something to learn at every range up to a document's length.

mod grammar;
mod lesson;
mod memory;
mod number;
mod page;
mod story;
mod verse;
mod writer;

use atoll_protocol::rng::Rng;

use grammar::Grammar;
use memory::{Character, Slot};
use writer::Writer;

/// The generated corpus of one seed.
#[derive(Debug)]
pub struct Generated {
    grammar: Grammar,
    seed: u64,
}

impl Generated {
    /// The corpus of `seed`.
    pub fn new(seed: u64) -> Self {
        Self { grammar: Grammar::new(RULES, WORDS), seed }
    }

    /// Which corpus this is.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Writes document `number` at the end of `out`: ASCII, never empty.
    pub fn write(&self, number: u64, out: &mut Vec<u8>) {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.seed.to_le_bytes());
        seed[8..16].copy_from_slice(&number.to_le_bytes());
        seed[16..].copy_from_slice(GENERATED_TAG);
        let mut writer = Writer::new(&self.grammar, Rng::from_seed(seed), out);
        writer.cast();
        match writer.rng.below(16) {
            0..8 => writer.story(),
            8..10 => writer.letter(),
            10..12 => writer.lesson(),
            12..14 => writer.play(),
            14 => writer.poem(),
            _ => writer.cumulative_tale(),
        }
    }
}

impl Writer<'_> {
    /// Draws the people, the town and the goal that a document is about.
    fn cast(&mut self) {
        let mut taken: Vec<String> = Vec::with_capacity(3);
        for character in Character::ALL {
            let she = self.rng.ratio(1, 2);
            self.memory.she[character as usize] = she;
            let [name, trade, manner] = character.slots();
            while taken.len() <= character as usize {
                let drawn = self.draw(if she { "she" } else { "he" });
                if !taken.contains(&drawn) {
                    self.memory.write(name, &drawn);
                    taken.push(drawn);
                }
            }
            self.bind(trade, "trade");
            self.bind(manner, "trait");
        }
        self.bind(Slot::Home, "town");
        self.bind(Slot::Place, "town");
        self.bind(Slot::GoalThing, "thing");
        let goal = format!("{} {}", self.draw("adjective"), self.memory.read(Slot::GoalThing));
        self.memory.write(Slot::Goal, &goal);
        self.bind(Slot::Day, "day");
        self.song();
    }
}

const RULES: &str = include_str!("generated/rules.txt");

const WORDS: &str = include_str!("generated/words.txt");

/// Part of every document's seed; changing what documents say changes it.
pub(super) const GENERATED_TAG: &[u8; 16] = b"atoll corpus v1\0";

#[cfg(test)]
mod tests {
    use super::*;

    fn text(number: u64) -> String {
        let mut out = Vec::new();
        Generated::new(7).write(number, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn documents_are_fixed_for_ever() {
        let corpus = Generated::new(1);
        let mut out = Vec::new();
        for number in 0..200 {
            corpus.write(number, &mut out);
            out.push(0);
        }
        let hash = blake3::hash(&out).to_hex();
        assert_eq!(&hash.as_str()[..16], "b4fcde28dcdca0bc");
    }

    #[test]
    fn documents_are_plain_and_differ() {
        let mut seen = std::collections::BTreeSet::new();
        for number in 0..500 {
            let text = text(number);
            assert!(text.len() > 100, "{text}");
            let plain = |byte: u8| byte == b'\n' || (b' '..=b'~').contains(&byte);
            assert!(text.bytes().all(plain), "{text}");
            assert!(text.ends_with('\n') && !text.contains(['<', '>', '@', '^']), "{text}");
            assert!(seen.insert(text));
        }
        let mut other = Vec::new();
        Generated::new(8).write(0, &mut other);
        assert_ne!(text(0).into_bytes(), other);
    }

    #[test]
    fn brackets_match_and_articles_fit() {
        for number in 0..500 {
            let text = text(number);
            let mut open = Vec::new();
            for byte in text.bytes() {
                match byte {
                    b'(' | b'[' | b'{' => open.push(byte),
                    b')' => assert_eq!(open.pop(), Some(b'('), "{text}"),
                    b']' => assert_eq!(open.pop(), Some(b'['), "{text}"),
                    b'}' => assert_eq!(open.pop(), Some(b'{'), "{text}"),
                    _ => {}
                }
            }
            assert!(open.is_empty(), "{text}");
            for wrong in [" a old ", " a empty ", " an red ", " a honest "] {
                assert!(!text.contains(wrong), "{text}");
            }
        }
    }
}
