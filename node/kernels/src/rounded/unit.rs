//! Which unit of the processor multiplies.

use std::sync::LazyLock;

use super::BLOCK;
use super::pack::{Line, Operand, STEP_LINES, steps};
use super::{tiles, vectors};
use crate::matrix::MatrixMut;

/// A unit that multiplies bf16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// The tile unit of newer Xeons (AMX).
    Tiles,
    /// Instructions of vectors (AVX-512 BF16).
    Vectors,
}

impl Unit {
    /// The quickest unit that this process may use, if there is one.
    pub(crate) fn best() -> Option<Self> {
        [Self::Tiles, Self::Vectors].into_iter().find(|unit| unit.is_here())
    }

    /// Whether this process may use it.
    pub(crate) fn is_here(self) -> bool {
        static VECTORS: LazyLock<bool> = LazyLock::new(|| {
            is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512bf16")
        });
        static TILES: LazyLock<bool> = LazyLock::new(|| *VECTORS && tiles::permitted());
        match self {
            Self::Tiles => *TILES,
            Self::Vectors => *VECTORS,
        }
    }

    /// Whether its products are quicker than those of f32.
    pub(crate) fn is_quick(self) -> bool {
        self == Self::Tiles || vectors::are_quick()
    }
}

/// A unit at work in this thread, until this is dropped.
#[derive(Debug)]
pub(super) struct Session {
    unit: Unit,
    _here: std::marker::PhantomData<*const ()>,
}

impl Session {
    /// # Panics
    /// If the unit may not be used.
    pub(super) fn begin(unit: Unit) -> Self {
        assert!(unit.is_here(), "{unit:?} may not be used");
        if unit == Unit::Tiles {
            // SAFETY: the unit is there and may be used.
            unsafe { tiles::configure() };
        }
        Self { unit, _here: std::marker::PhantomData }
    }

    /// Lays a part of an operand out as tiles.
    #[expect(clippy::unused_self, reason = "a session proves that the instructions are there")]
    pub(super) fn pack(
        &self,
        operand: &Operand<'_>,
        part: (usize, usize),
        depth: (usize, usize),
        into: &mut [Line],
    ) {
        // SAFETY: a session is only there with the features, and `combine` asks for parts of what
        // the views hold.
        unsafe { operand.pack(part, depth, into) };
    }

    /// `out` becomes `keep` times itself plus `scale` times the product of what was packed.
    pub(super) fn multiply(
        &self,
        mut out: MatrixMut<'_>,
        keep: f32,
        scale: f32,
        left: &[Line],
        right: &[Line],
        deep: usize,
    ) {
        let ((rows, columns), steps) = (out.sides(), steps(deep));
        let together = (NEAR / (steps * STEP_LINES)).max(1) * BLOCK;
        for first in (0..columns).step_by(together) {
            let last = columns.min(first + together);
            for row in (0..rows).step_by(BLOCK) {
                let left = &left[row / BLOCK * steps * STEP_LINES..][..steps * STEP_LINES];
                for column in (first..last).step_by(BLOCK) {
                    let right = &right[column / BLOCK * steps * STEP_LINES..];
                    let right = &right[..steps * STEP_LINES];
                    let (high, wide) = (BLOCK.min(rows - row), BLOCK.min(columns - column));
                    let part = out.part(row, column, high, wide);
                    self.part(part, keep, scale, left, right);
                }
            }
        }
    }

    /// At most 32 rows and columns of a product.
    #[inline(always)]
    fn part(&self, mut out: MatrixMut<'_>, keep: f32, scale: f32, left: &[Line], right: &[Line]) {
        let whole = out.sides() == (BLOCK, BLOCK);
        if whole && scale == 1.0 && (keep == 0.0 || keep == 1.0) {
            let (values, stride) = out.raw();
            return self.block(left, right, values, stride, keep == 1.0);
        }
        let mut product = [0.0; BLOCK * BLOCK];
        self.block(left, right, &mut product, BLOCK, false);
        out.blend(keep, scale, &product, BLOCK);
    }

    /// The product of two tiles of rows and two of columns: 32 x 32 values, `stride` apart.
    #[inline(always)]
    fn block(&self, left: &[Line], right: &[Line], out: &mut [f32], stride: usize, add: bool) {
        assert!(
            !left.is_empty() && left.len().is_multiple_of(STEP_LINES) && right.len() == left.len()
        );
        assert!(out.len() >= (BLOCK - 1) * stride + BLOCK && stride >= BLOCK);
        match self.unit {
            // SAFETY: the session has set the unit up; the lengths are those asserted.
            Unit::Tiles => unsafe { tiles::block(left, right, out, stride, add) },
            // SAFETY: a session is only there with the features.
            Unit::Vectors => unsafe { vectors::block(left, right, out, stride, add) },
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.unit == Unit::Tiles {
            // SAFETY: the unit is there.
            unsafe { tiles::release() };
        }
    }
}

/// Lines of the right side that rows are multiplied with one after another: they and the rows stay
/// in the first cache.
const NEAR: usize = 384;
