//! Processors for which no unit is known.

use crate::matrix::{Matrix, MatrixMut};

/// Never there.
#[derive(Debug)]
pub(crate) enum Rounded {}

impl Rounded {
    pub(crate) fn is_here() -> bool {
        false
    }

    pub(crate) fn is_quick() -> bool {
        false
    }

    pub(crate) fn new() -> Self {
        unreachable!("there is no unit for bf16 here")
    }

    pub(crate) fn combine(
        &mut self,
        _: MatrixMut<'_>,
        _: f32,
        _: f32,
        _: Matrix<'_>,
        _: Matrix<'_>,
    ) {
        match *self {}
    }
}
