//! A plan as it is written.

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use toml::Spanned;

use super::deed::Verb;
use super::span::{Length, Span};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPlan {
    /// Islands that are never touched.
    pub(super) spare: Option<Spanned<usize>>,
    #[serde(default, rename = "event")]
    pub(super) events: Vec<Spanned<RawEvent>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawEvent {
    #[serde(rename = "do")]
    pub(super) verb: Verb,
    pub(super) at: Option<Span>,
    pub(super) every: Option<Spanned<Span>>,
    pub(super) from: Option<Span>,
    pub(super) until: Option<Span>,
    pub(super) island: Option<Spanned<Who>>,
    #[serde(rename = "for")]
    pub(super) lasts: Option<Spanned<Length>>,
    pub(super) rate: Option<Spanned<String>>,
}

/// To whom something is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::up) enum Who {
    /// One that is drawn.
    Any,
    /// Half of those that may be touched.
    Half,
    /// These, by their number from 1.
    These(Vec<usize>),
}

impl<'de> Deserialize<'de> for Who {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(WhoVisitor)
    }
}

struct WhoVisitor;

impl<'de> Visitor<'de> for WhoVisitor {
    type Value = Who;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an island's number, a list of numbers, \"any\" or \"half\"")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Who, E> {
        let number = usize::try_from(number)
            .map_err(|_| E::invalid_value(de::Unexpected::Signed(number), &self))?;
        Ok(Who::These(vec![number]))
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<Who, E> {
        match word {
            "any" => Ok(Who::Any),
            "half" => Ok(Who::Half),
            other => Err(E::invalid_value(de::Unexpected::Str(other), &self)),
        }
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Who, A::Error> {
        let mut numbers = Vec::new();
        while let Some(number) = list.next_element()? {
            numbers.push(number);
        }
        Ok(Who::These(numbers))
    }
}
