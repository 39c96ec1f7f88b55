//! The core's ids and words in JSON: short text instead of lists of bytes, in names that stay.

use atoll_protocol::fault::Fault;
use atoll_protocol::frontier::Standing;
use atoll_protocol::id::{ContentId, ContributionId, FragmentId, NodeId, RoundId, RunId};
use data_encoding::HEXLOWER_PERMISSIVE;
use serde::{Deserialize, Deserializer, Serializer};

/// Something that has one text.
pub trait Written: Sized {
    /// What a text that is none is told to be.
    const KIND: &'static str;

    /// The text.
    fn write(&self) -> String;

    /// What `text` stands for, if anything.
    fn read(text: &str) -> Option<Self>;
}

/// For `#[serde(with = "written")]`.
pub(super) fn serialize<T: Written, S: Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&value.write())
}

/// For `#[serde(with = "written")]`.
pub(super) fn deserialize<'de, T: Written, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    read(&String::deserialize(deserializer)?)
}

/// The same for values that may be missing.
pub(super) mod option {
    use super::*;

    pub(in crate::observe) fn serialize<T: Written, S: Serializer>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.serialize_some(&value.write()),
            None => serializer.serialize_none(),
        }
    }

    pub(in crate::observe) fn deserialize<'de, T: Written, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        Option::<String>::deserialize(deserializer)?.as_deref().map(read).transpose()
    }
}

fn read<T: Written, E: serde::de::Error>(text: &str) -> Result<T, E> {
    T::read(text).ok_or_else(|| E::custom(format!("`{}` is not {}", text.escape_debug(), T::KIND)))
}

macro_rules! hexadecimal {
    ($name:ident, $kind:literal) => {
        impl Written for $name {
            const KIND: &'static str = concat!($kind, ": 64 hexadecimal digits");

            fn write(&self) -> String {
                self.to_hex()
            }

            fn read(text: &str) -> Option<Self> {
                let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?;
                Some(Self(bytes.try_into().ok()?))
            }
        }
    };
}
hexadecimal!(RunId, "a run id");
hexadecimal!(NodeId, "a node id");
hexadecimal!(ContributionId, "a contribution id");
hexadecimal!(ContentId, "a digest");

impl Written for RoundId {
    const KIND: &'static str = "a round, such as f3/r41";

    fn write(&self) -> String {
        self.to_string()
    }

    fn read(text: &str) -> Option<Self> {
        let (fragment, number) = text.strip_prefix('f')?.split_once("/r")?;
        let fragment = FragmentId(fragment.parse().ok()?);
        let round = Self { fragment, number: number.parse().ok()? };
        // One text only: no signs, no leading zeros.
        (round.write() == text).then_some(round)
    }
}

impl Written for Standing {
    const KIND: &'static str = "a standing: joining, caught_up or muted";

    fn write(&self) -> String {
        match self {
            Self::Joining => "joining",
            Self::CaughtUp => "caught_up",
            Self::Muted => "muted",
        }
        .to_owned()
    }

    fn read(text: &str) -> Option<Self> {
        [Self::Joining, Self::CaughtUp, Self::Muted].into_iter().find(|it| it.write() == text)
    }
}

impl Written for Fault {
    const KIND: &'static str = "a fault, such as bad_signature";

    fn write(&self) -> String {
        let mut text = String::new();
        for c in format!("{self:?}").chars() {
            if c.is_ascii_uppercase() && !text.is_empty() {
                text.push('_');
            }
            text.push(c.to_ascii_lowercase());
        }
        text
    }

    fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.write() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read_as_it_is_written() {
        for fault in Fault::ALL {
            assert_eq!(Fault::read(&fault.write()), Some(fault));
        }
        assert_eq!(Fault::BadSignature.write(), "bad_signature");
        for standing in [Standing::Joining, Standing::CaughtUp, Standing::Muted] {
            assert_eq!(Standing::read(&standing.write()), Some(standing));
        }
        let node = NodeId([0xab; 32]);
        assert_eq!(NodeId::read(&node.write()), Some(node));
        assert_eq!(NodeId::read(&node.write().to_uppercase()), Some(node));
        let round = RoundId { fragment: FragmentId(3), number: 41 };
        assert_eq!(RoundId::read("f3/r41"), Some(round));
    }

    #[test]
    fn other_words_are_refused() {
        for text in ["", "ab", &"g".repeat(64), &"a".repeat(66)] {
            assert_eq!(NodeId::read(text), None, "{text}");
        }
        for text in ["", "f3", "f3/41", "f03/r1", "f+3/r1", "f3/r-1", "f70000/r1", "f1/r1 "] {
            assert_eq!(RoundId::read(text), None, "{text}");
        }
    }
}
