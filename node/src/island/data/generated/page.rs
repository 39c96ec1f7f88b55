//! Letters and plays, and what every page has in common.

use super::memory::Slot;
use super::writer::Writer;

impl Writer<'_> {
    /// A letter from the first character to the second, signed.
    pub(super) fn letter(&mut self) {
        self.push("Dear ");
        self.recall(Slot::Second);
        self.push(",\n\n");
        self.say("letter-open");
        for _ in 0..self.rng.range(2, 5) {
            match self.rng.below(8) {
                0 => self.sum_scene(),
                1 => self.list_scene(),
                _ => self.say("letter-line"),
            }
        }
        if self.rng.ratio(1, 3) {
            self.paragraph();
            self.say("letter-song");
        }
        self.line_end();
        self.say("letter-end");
        self.line_end();
    }

    /// People who speak in turn, with what they do in brackets.
    pub(super) fn play(&mut self) {
        self.title();
        self.say("stage");
        self.line_end();
        let turns = self.rng.range(6, 14);
        let mut speakers = [Slot::First, Slot::Second, Slot::Third];
        for _ in 0..turns {
            // The front one is never the one who spoke last.
            let other = 1 + usize::try_from(self.rng.below(2)).expect("one of two");
            speakers.swap(0, other);
            let name = self.memory.read(speakers[0]).to_uppercase();
            self.push(&name);
            if self.rng.ratio(1, 4) {
                self.push(" (");
                self.say("play-move");
                self.push(")");
            }
            self.push(": ");
            for _ in 0..self.rng.range(1, 2) {
                self.say("play-line");
                self.push(" ");
            }
            self.line_end();
        }
        self.push("\n");
        self.say("curtain");
        self.line_end();
    }

    /// The title of the document on a line of its own.
    pub(super) fn title(&mut self) {
        self.say("title");
        self.push("\n\n");
    }

    /// Ends the paragraph.
    pub(super) fn paragraph(&mut self) {
        self.line_end();
        self.push("\n");
    }
}
