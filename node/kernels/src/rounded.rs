//! Products of operands that are rounded to bf16, with f32 sums, on processors that have a unit for it.
//!
//! Operands are rounded and packed into tiles first; whatever is missing at the edges is zero. Sums
//! have one order, so on one machine the same input gives the same bits.

mod pack;
mod tiles;
mod unit;
mod vectors;

use crate::matrix::{Matrix, MatrixMut};
use unit::{Session, Unit};

/// Multiplies on a unit for bf16, with room for the operands in work.
#[derive(Debug)]
pub(crate) struct Rounded {
    unit: Unit,
    left: Vec<pack::Line>,
    right: Vec<pack::Line>,
}

impl Rounded {
    /// Whether a unit for it is here.
    pub(crate) fn is_here() -> bool {
        Unit::best().is_some()
    }

    /// Whether there is one that is quicker than products of f32.
    pub(crate) fn is_quick() -> bool {
        Unit::best().is_some_and(Unit::is_quick)
    }

    /// # Panics
    /// If no unit is here.
    pub(crate) fn new() -> Self {
        Self::on(Unit::best().expect("a unit for bf16"))
    }

    fn on(unit: Unit) -> Self {
        Self {
            unit,
            left: vec![pack::Line::ZERO; pack::lines(ROWS, INNER)],
            right: vec![pack::Line::ZERO; pack::lines(COLUMNS, INNER)],
        }
    }

    /// `out` becomes `keep` times itself plus `scale` times `left` times `right`.
    ///
    /// With `keep` zero what was there before is not read.
    pub(crate) fn combine(
        &mut self,
        mut out: MatrixMut<'_>,
        keep: f32,
        scale: f32,
        left: Matrix<'_>,
        right: Matrix<'_>,
    ) {
        out.check(left, right);
        let ((rows, columns), inner) = (out.sides(), left.sides().1);
        if inner == 0 {
            return out.combine(keep, scale, left, right);
        }
        let (left, right) = (pack::Operand::left(left), pack::Operand::right(right));
        let session = Session::begin(self.unit);
        for depth in (0..inner).step_by(INNER) {
            let deep = INNER.min(inner - depth);
            let keep = if depth == 0 { keep } else { 1.0 };
            for row in (0..rows).step_by(ROWS) {
                let high = ROWS.min(rows - row);
                session.pack(&left, (row, high), (depth, deep), &mut self.left);
                for column in (0..columns).step_by(COLUMNS) {
                    let wide = COLUMNS.min(columns - column);
                    session.pack(&right, (column, wide), (depth, deep), &mut self.right);
                    let part = out.part(row, column, high, wide);
                    session.multiply(part, keep, scale, &self.left, &self.right, deep);
                }
            }
        }
    }
}

/// Of the inner side in work at a time.
const INNER: usize = 512;
/// Rows in work at a time: packed they are half a MiB, a quarter of these processors' second cache.
const ROWS: usize = 512;
/// Columns in work at a time.
const COLUMNS: usize = 512;
/// Rows and columns that are multiplied together: two tiles of each.
const BLOCK: usize = 2 * pack::SIDE;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::numbers;

    /// What this machine has.
    fn units() -> Vec<Unit> {
        let here: Vec<Unit> =
            [Unit::Tiles, Unit::Vectors].into_iter().filter(|unit| unit.is_here()).collect();
        if here.is_empty() {
            eprintln!("skipped: this processor has no unit for bf16");
        }
        here
    }

    /// A value as a unit sees it.
    fn rounded(value: f32) -> f64 {
        let bits = value.to_bits();
        let even = 0x7fff + (bits >> 16 & 1);
        f64::from(f32::from_bits((bits + even) & 0xffff_0000))
    }

    /// Elements of a matrix of `rows` rows, row by row or, `turned`, column by column.
    fn at(
        values: &[f32],
        rows: usize,
        columns: usize,
        turned: bool,
    ) -> impl Fn(usize, usize) -> f64 {
        move |row, column| {
            rounded(values[if turned { column * rows + row } else { row * columns + column }])
        }
    }

    fn view(values: &[f32], rows: usize, columns: usize, turned: bool) -> Matrix<'_> {
        if turned {
            Matrix::new(values, columns, rows).transposed()
        } else {
            Matrix::new(values, rows, columns)
        }
    }

    #[test]
    fn products_of_any_size_and_order_are_those_of_rounded_operands() {
        for unit in units() {
            products_are_those_of_rounded_operands(Rounded::on(unit));
        }
    }

    fn products_are_those_of_rounded_operands(mut multiplier: Rounded) {
        let sizes =
            [(1, 1, 1), (32, 32, 32), (33, 31, 47), (64, 128, 16), (5, 100, 70), (530, 520, 540)];
        for (rows, inner, columns) in sizes {
            let (left, right) = (numbers(1, rows * inner), numbers(2, inner * columns));
            for (turn_left, turn_right) in
                [(false, false), (false, true), (true, false), (true, true)]
            {
                let (one, other) =
                    (at(&left, rows, inner, turn_left), at(&right, inner, columns, turn_right));
                for (keep, scale) in [(0.0, 1.0), (1.0, 1.0), (0.5, -2.0)] {
                    let gap = columns + 3;
                    let begin = if keep == 0.0 { f32::NAN } else { 0.25 };
                    let mut out = vec![begin; rows * gap];
                    multiplier.combine(
                        MatrixMut::strided(&mut out, rows, columns, gap),
                        keep,
                        scale,
                        view(&left, rows, inner, turn_left),
                        view(&right, inner, columns, turn_right),
                    );
                    for (row, column) in [(0, 0), (rows / 2, columns / 3), (rows - 1, columns - 1)]
                    {
                        let sum: f64 = (0..inner).map(|k| one(row, k) * other(k, column)).sum();
                        let exact = 0.25 * f64::from(keep) + f64::from(scale) * sum;
                        let found = f64::from(out[row * gap + column]);
                        assert!(
                            (found - exact).abs() < 1e-4 * (1.0 + inner as f64).sqrt(),
                            "{rows} {inner} {columns} {turn_left} {turn_right} {keep}: \
                             {found} {exact} at {row} {column}"
                        );
                    }
                    let gaps = out.chunks(gap).flat_map(|row| &row[columns..]);
                    assert!(gaps.copied().all(|value| value.to_bits() == begin.to_bits()));
                }
            }
        }
    }

    #[test]
    fn what_is_no_number_stays_none() {
        for unit in units() {
            infinity_spoils_its_row_alone(Rounded::on(unit));
        }
    }

    fn infinity_spoils_its_row_alone(mut multiplier: Rounded) {
        let (mut left, right) = (numbers(1, 40 * 40), numbers(2, 40 * 40));
        left[41] = f32::INFINITY;
        let mut out = vec![0.0; 40 * 40];
        multiplier.combine(
            MatrixMut::new(&mut out, 40, 40),
            0.0,
            1.0,
            Matrix::new(&left, 40, 40),
            Matrix::new(&right, 40, 40),
        );
        assert!(out[40..80].iter().all(|value| !value.is_finite()));
        assert!(out[..40].iter().all(|value| value.is_finite()));
    }
}
