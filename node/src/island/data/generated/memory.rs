//! What a document remembers, so that what is said later agrees with what was said first.

/// Everything a document remembers.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    values: [String; SLOTS],
    /// Whether each character is a "she".
    pub(super) she: [bool; 3],
}

impl Memory {
    /// What is remembered under `slot`; empty if nothing was.
    pub(super) fn read(&self, slot: Slot) -> &str {
        &self.values[slot as usize]
    }

    /// Remembers `value`.
    pub(super) fn write(&mut self, slot: Slot, value: &str) {
        let place = &mut self.values[slot as usize];
        place.clear();
        place.push_str(value);
    }

    /// The pronoun for a character.
    pub(super) fn pronoun(&self, character: Character, form: Form) -> &'static str {
        PRONOUNS[form as usize][usize::from(self.she[character as usize])]
    }
}

macro_rules! slots {
    ($($slot:ident = $name:literal,)*) => {
        /// A named thing that a document remembers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Slot { $($slot,)* }

        impl Slot {
            /// The slot that rules call `name`.
            pub(super) fn named(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$slot),)* _ => None }
            }
        }

        const SLOTS: usize = [$($name,)*].len();
    };
}

slots! {
    First = "a",
    Second = "b",
    Third = "c",
    FirstTrade = "a.trade",
    SecondTrade = "b.trade",
    ThirdTrade = "c.trade",
    FirstTrait = "a.trait",
    SecondTrait = "b.trait",
    ThirdTrait = "c.trait",
    Home = "home",
    Place = "place",
    Spot = "spot",
    Goal = "goal",
    GoalThing = "goal.thing",
    Item = "item",
    Other = "other",
    Creature = "creature",
    Food = "food",
    Day = "day",
    Next = "next",
    One = "n1",
    Two = "n2",
    Three = "n3",
    Four = "n4",
    RhymeOne = "r1",
    RhymeTwo = "r2",
    RhymeThree = "r3",
    RhymeFour = "r4",
    SongOne = "song1",
    SongTwo = "song2",
}

/// One of the people of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Character {
    /// Whom the document is about.
    First,
    /// Whom the first meets.
    Second,
    /// Who turns up later.
    Third,
}

impl Character {
    /// All of them.
    pub(super) const ALL: [Self; 3] = [Self::First, Self::Second, Self::Third];

    /// The character that rules call `name`.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "a" => Some(Self::First),
            "b" => Some(Self::Second),
            "c" => Some(Self::Third),
            _ => None,
        }
    }

    /// Where the character's name, trade and trait are remembered.
    pub(super) fn slots(self) -> [Slot; 3] {
        match self {
            Self::First => [Slot::First, Slot::FirstTrade, Slot::FirstTrait],
            Self::Second => [Slot::Second, Slot::SecondTrade, Slot::SecondTrait],
            Self::Third => [Slot::Third, Slot::ThirdTrade, Slot::ThirdTrait],
        }
    }
}

/// A form of a pronoun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// "he" or "she".
    He,
    /// "him" or "her".
    Him,
    /// "his" or "her".
    His,
    /// "himself" or "herself".
    Himself,
}

impl Form {
    /// The form that rules call `name`.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "he" => Some(Self::He),
            "him" => Some(Self::Him),
            "his" => Some(Self::His),
            "himself" => Some(Self::Himself),
            _ => None,
        }
    }
}

const PRONOUNS: [[&str; 2]; 4] =
    [["he", "she"], ["him", "her"], ["his", "her"], ["himself", "herself"]];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pronouns_agree_with_the_character() {
        let memory = Memory { she: [false, true, false], ..Memory::default() };
        assert_eq!(memory.pronoun(Character::First, Form::Himself), "himself");
        assert_eq!(memory.pronoun(Character::Second, Form::His), "her");
    }

    #[test]
    fn what_is_written_is_read() {
        let mut memory = Memory::default();
        memory.write(Slot::Goal, "cup");
        memory.write(Slot::Goal, "owl");
        assert_eq!((memory.read(Slot::Goal), memory.read(Slot::SongTwo)), ("owl", ""));
    }
}
