//! The token-weighted mean.

use crate::codec::PayloadError;
use crate::outer::merge::Weighed;
use crate::outer::merge::sum::{Coefficients, weighted_sum};
use crate::pool::Pool;

pub(super) fn merge(
    cut: &Weighed<'_>,
    out: &mut [f32],
    pool: &dyn Pool,
) -> Result<(), PayloadError> {
    let shares = Coefficients::Whole(cut.mean_shares());
    weighted_sum(cut, &shares, out, pool, |_, _| ())?;
    Ok(())
}
