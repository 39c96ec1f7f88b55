//! From a cut to one pseudo-gradient.
//!
//! Weights are capped and norms clipped first ([`crate::outer::weights`] and the `clip` of the
//! genesis), then the genesis' rule merges what is left. Every rule is a pure function of the
//! cut in its canonical order; nothing is remembered from one round to the next.

mod centered;
mod mean;
mod rda;
mod sum;
mod trimmed;

use crate::codec::{Codec, Payload, PayloadError};
use crate::fragment::Fragment;
use crate::genesis::{Merge, MergeRule};
use crate::outer::norm::Norms;
use crate::outer::{clip, weight};
use crate::pool::Pool;

/// One contribution of a cut.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// The tokens it claims.
    pub tokens: u64,
    /// Its payload, as it was fetched.
    pub payload: &'a [u8],
    /// What [`crate::outer::check`] measured.
    pub norms: &'a Norms,
}

/// The pseudo-gradient of a cut whose members are in canonical order, which is by author.
///
/// An empty cut, or one whose weights are all zero, gives zeros.
pub fn merge(
    fragment: &Fragment,
    merge: &Merge,
    codec: Codec,
    members: &[Member<'_>],
    pool: &dyn Pool,
) -> Result<Vec<f32>, PayloadError> {
    let mut out = vec![0.0; fragment.elements];
    merge_into(fragment, merge, codec, members, &mut out, pool)?;
    Ok(out)
}

/// [`merge()`] into memory that is already there, whatever it holds.
///
/// # Panics
/// If `out` does not have the fragment's length.
pub fn merge_into(
    fragment: &Fragment,
    merge: &Merge,
    codec: Codec,
    members: &[Member<'_>],
    out: &mut [f32],
    pool: &dyn Pool,
) -> Result<(), PayloadError> {
    assert_eq!(out.len(), fragment.elements, "a merge has one value for each parameter");
    let cut = Weighed::new(fragment, merge, codec, members)?;
    if cut.total_weight == 0.0 {
        out.fill(0.0);
        return Ok(());
    }
    match merge.rule {
        MergeRule::Mean => mean::merge(&cut, out, pool),
        MergeRule::Rda => rda::merge(&cut, out, pool),
        MergeRule::TrimmedMean => trimmed::merge(&cut, out, pool),
        MergeRule::CenteredClip => centered::merge(&cut, out, pool),
    }
}

/// A cut whose payloads are open and whose members are weighed.
struct Weighed<'a> {
    fragment: &'a Fragment,
    payloads: Vec<Payload<'a>>,
    norms: Vec<&'a Norms>,
    /// Capped tokens of each member.
    weights: Vec<f64>,
    total_weight: f64,
    /// What each member is multiplied with so that its norm is within the clip.
    clips: Vec<f64>,
}

impl<'a> Weighed<'a> {
    fn new(
        fragment: &'a Fragment,
        merge: &Merge,
        codec: Codec,
        members: &[Member<'a>],
    ) -> Result<Self, PayloadError> {
        let tokens: Vec<u64> = members.iter().map(|member| member.tokens).collect();
        let totals: Vec<f64> = members.iter().map(|member| member.norms.total).collect();
        let payloads = members
            .iter()
            .map(|member| Payload::open(member.payload, codec, fragment.elements))
            .collect::<Result<_, _>>()?;
        let weights: Vec<f64> = weight::weights(&tokens, merge.weight_cap)
            .into_iter()
            .map(|weight| weight as f64)
            .collect();
        Ok(Self {
            fragment,
            payloads,
            norms: members.iter().map(|member| member.norms).collect(),
            total_weight: weights.iter().sum(),
            weights,
            clips: clip::factors(&totals, merge.clip),
        })
    }

    /// Each member's share of the weight times `factor`, as the number payloads are scaled with.
    fn shares(&self, factor: impl Fn(usize) -> f64) -> Vec<f32> {
        let share = |(member, weight): (usize, &f64)| {
            nearest_f32(weight / self.total_weight * factor(member))
        };
        self.weights.iter().enumerate().map(share).collect()
    }

    /// Each member's share of the weight times its clip: the coefficients of the mean.
    fn mean_shares(&self) -> Vec<f32> {
        self.shares(|member| self.clips[member])
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rounding to the nearest is what is meant")]
fn nearest_f32(value: f64) -> f32 {
    value as f32
}
