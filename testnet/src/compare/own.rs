//! Variants that people name on the command line: `atoll,peak=4e-3,span=8,outer=1.0/0.3,adamw`.

use std::str::FromStr;

use atoll_protocol::codec::Codec;
use atoll_protocol::genesis::{InnerOptimiser, MergeRule};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};

use super::section::{CALM, Section};
use super::variant::{Method, Variant};
use super::weather::Weather;

/// Reads a variant: its way, then what differs from the defaults.
pub(super) fn read(text: &str) -> Result<Variant, String> {
    let mut words = text.split(',').map(str::trim);
    let method = method(words.next().unwrap_or_default())?;
    let mut variant = Variant::new(Section::Own, text, method);
    words.try_for_each(|word| set(&mut variant, word))?;
    let numbers = [variant.peak, variant.outer_rate, variant.momentum];
    if numbers.iter().any(|it| !it.is_finite() || *it < 0.0) || variant.peak == 0.0 {
        return Err("rates and momentum are numbers above 0\nhint: peak=2e-3,outer=1.0/0.3".into());
    }
    if variant.delay >= variant.span.max(1) {
        return Err("delay is less than span\nhint: central,span=12,delay=2".into());
    }
    if ![1, 2, 4, 8].contains(&variant.pieces) {
        return Err("a step of eight sequences has 1, 2, 4 or 8 pieces\nhint: pieces=4".into());
    }
    if variant.span == 0 || !(1..=64).contains(&variant.times) {
        return Err("span is at least 1, times is 1 to 64\nhint: span=24,times=2".into());
    }
    Ok(variant)
}

fn method(word: &str) -> Result<Method, String> {
    Ok(match word {
        "alone" => Method::OneIsland,
        "parallel" => Method::EveryStep,
        "central" => Method::Central,
        "pairwise" => Method::Pairwise,
        "atoll" => CALM,
        "atoll-spread" => Method::Swarm(Weather::Spread),
        "atoll-storm" => Method::Swarm(Weather::Storm),
        "atoll-split" => Method::Swarm(Weather::Split),
        _ => {
            return Err(format!(
                "there is no way {word:?}\nhint: begin with alone, parallel, central, pairwise, \
                 atoll, atoll-spread, atoll-storm or atoll-split"
            ));
        }
    })
}

fn set(variant: &mut Variant, word: &str) -> Result<(), String> {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    match name {
        "peak" => variant.peak = number(word, value)?,
        "span" => variant.span = number(word, value)?,
        "times" => variant.times = number(word, value)?,
        "quorum" => variant.quorum_percent = number(word, value)?,
        "grace" => variant.grace_ms_max = number(word, value)?,
        "pieces" => variant.pieces = number(word, value)?,
        "delay" => variant.delay = number(word, value)?,
        "latency" => variant.latency_ms = Some(number(word, value)?),
        "codec" => variant.codec = named::<Codec>(word, value)?,
        "rule" => variant.rule = named::<MergeRule>(word, value)?,
        "muon" => variant.optimiser = InnerOptimiser::muon(),
        "adamw" => variant.optimiser = InnerOptimiser::AdamW,
        "outer" => {
            let (rate, momentum) = value.split_once('/').unwrap_or((value, "0"));
            variant.outer_rate = number(word, rate)?;
            variant.momentum = number(word, momentum)?;
        }
        _ => {
            return Err(format!(
                "{word:?} changes nothing\nhint: use peak=, span=, outer=RATE/MOMENTUM, codec=, \
                 rule=, quorum=, grace=, times=, latency=, pieces=, delay= (of central), muon or adamw"
            ));
        }
    }
    Ok(())
}

fn number<T: FromStr>(word: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{word:?} is no number\nhint: such as span=24"))
}

/// A codec or rule by the word that a genesis has for it.
fn named<'a, T: Deserialize<'a>>(word: &str, value: &'a str) -> Result<T, String> {
    let text: StrDeserializer<'a, Error> = value.into_deserializer();
    T::deserialize(text).map_err(|error| format!("{word:?}\nhint: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_is_read_as_it_is_meant() {
        let line = "atoll-spread,peak=4e-3,span=8,outer=0.7/0.5,codec=low,rule=centered-clip,adamw,latency=60";
        let variant = read(line).unwrap();
        assert_eq!(variant.method, Method::Swarm(Weather::Spread));
        assert_eq!((variant.peak, variant.span), (4e-3, 8));
        assert_eq!((variant.optimiser, variant.latency_ms), (InnerOptimiser::AdamW, Some(60)));
        assert_eq!((variant.outer_rate, variant.momentum), (0.7, 0.5));
        assert_eq!((variant.codec, variant.rule), (Codec::Low, MergeRule::CenteredClip));
        assert_eq!(read("parallel").unwrap().method, Method::EveryStep);
    }

    #[test]
    fn nonsense_has_a_hint() {
        for line in [
            "",
            "atol",
            "atoll,peek=1",
            "atoll,peak=x",
            "atoll,peak=0",
            "atoll,peak=NaN",
            "atoll,span=0",
            "atoll,times=0",
            "central,span=4,delay=4",
            "atoll,pieces=3",
            "atoll,codec=int3",
            "atoll,outer=1/-1",
        ] {
            assert!(read(line).unwrap_err().contains("\nhint: "), "{line}");
        }
    }
}
