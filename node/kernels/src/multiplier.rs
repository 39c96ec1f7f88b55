//! Who multiplies: the precision of products, and the room they need.

use std::fmt;

use crate::matrix::{Matrix, MatrixMut};
use crate::rounded::Rounded;

/// What products are computed in, of what this machine can. Sums are f32 in any case, and so is
/// everything that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Precision {
    rounds: bool,
}

impl Precision {
    /// Operands as they are: what every machine can.
    pub const F32: Self = Self { rounds: false };

    /// Operands rounded to bf16 (8 bits of significand), where the processor has a unit for that.
    pub fn bf16() -> Option<Self> {
        Rounded::is_here().then_some(Self { rounds: true })
    }

    /// The quickest that this machine can.
    pub fn quickest() -> Self {
        Self { rounds: Rounded::is_quick() }
    }
}

impl Default for Precision {
    fn default() -> Self {
        Self::F32
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.rounds { "bf16" } else { "f32" })
    }
}

/// Multiplies matrices in one precision, in the thread that asks.
#[derive(Debug)]
pub struct Multiplier {
    rounded: Option<Rounded>,
    /// A panel of a weight, turned.
    panel: Vec<f32>,
}

impl Multiplier {
    /// A multiplier that turns `panel` elements of a weight at a time, where that is needed.
    pub fn new(precision: Precision, panel: usize) -> Self {
        if precision.rounds {
            return Self { rounded: Some(Rounded::new()), panel: Vec::new() };
        }
        Self { rounded: None, panel: vec![0.0; panel] }
    }

    /// `out` becomes `left` times `right`.
    ///
    /// # Panics
    /// If the sides do not match.
    pub fn product(&mut self, out: MatrixMut<'_>, left: Matrix<'_>, right: Matrix<'_>) {
        self.combine(out, 0.0, 1.0, left, right);
    }

    /// `out` gets `left` times `right` added.
    ///
    /// # Panics
    /// If the sides do not match.
    pub fn add_product(&mut self, out: MatrixMut<'_>, left: Matrix<'_>, right: Matrix<'_>) {
        self.combine(out, 1.0, 1.0, left, right);
    }

    /// `out` becomes `keep` times itself plus `scale` times `left` times `right`.
    ///
    /// With `keep` zero what was there before is not read, so it may be anything.
    ///
    /// # Panics
    /// If the sides do not match.
    pub fn combine(
        &mut self,
        out: MatrixMut<'_>,
        keep: f32,
        scale: f32,
        left: Matrix<'_>,
        right: Matrix<'_>,
    ) {
        match &mut self.rounded {
            Some(rounded) => rounded.combine(out, keep, scale, left, right),
            None => out.combine(keep, scale, left, right),
        }
    }

    /// `out` becomes `keep` times itself plus `input` times the transposed `weight`, which is stored
    /// row by row.
    ///
    /// # Panics
    /// If the sides do not match or `weight` is a transposed view.
    pub fn linear(&mut self, out: MatrixMut<'_>, keep: f32, input: Matrix<'_>, weight: Matrix<'_>) {
        match &mut self.rounded {
            Some(rounded) => rounded.combine(out, keep, 1.0, input, weight.transposed()),
            None => out.linear(keep, input, weight, &mut self.panel),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{assert_close, numbers, wide};

    #[test]
    fn both_precisions_give_the_same_products_but_for_rounding() {
        let (rows, inner, columns) = (40, 64, 50);
        let (left, right) = (numbers(1, rows * inner), numbers(2, columns * inner));
        let (left, right) = (Matrix::new(&left, rows, inner), Matrix::new(&right, columns, inner));
        let products = |precision| {
            let mut multiplier = Multiplier::new(precision, 0);
            let mut out = vec![0.5; rows * columns];
            multiplier.linear(MatrixMut::new(&mut out, rows, columns), 1.0, left, right);
            let whole = MatrixMut::new(&mut out, rows, columns);
            multiplier.add_product(whole, left, right.transposed());
            out
        };
        let Some(rounded) = Precision::bf16().map(products) else {
            assert_eq!(Precision::quickest(), Precision::F32);
            eprintln!("skipped: this processor has no unit for bf16");
            return;
        };
        let exact = products(Precision::F32);
        assert_ne!(rounded, exact);
        assert_close(&rounded, &wide(&exact), 5e-2);
    }
}
