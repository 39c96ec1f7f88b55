//! Matrices as views of slices, and their product.

use crate::vector::vectorised;

/// A matrix that lies, perhaps with gaps or transposed, in a slice.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    values: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// A matrix stored row after row without gaps.
    ///
    /// # Panics
    /// If the slice has another length.
    pub fn new(values: &'a [f32], rows: usize, columns: usize) -> Self {
        assert_eq!(values.len(), rows * columns, "{rows} rows of {columns}");
        Self::strided(values, rows, columns, columns)
    }

    /// A matrix whose rows begin `stride` elements apart.
    ///
    /// # Panics
    /// If the last row ends outside the slice.
    pub fn strided(values: &'a [f32], rows: usize, columns: usize, stride: usize) -> Self {
        assert!(holds(values.len(), rows, columns, stride), "{rows} rows of {columns}, {stride}");
        Self { values, rows, columns, row_stride: stride, column_stride: 1 }
    }

    /// The same matrix turned in memory: its columns become the rows of `into`.
    ///
    /// # Panics
    /// If `into` has another length, or this is a transposed view.
    pub fn turn(self, into: &mut [f32]) {
        assert_eq!(into.len(), self.rows * self.columns);
        assert_eq!(self.column_stride, 1, "a transposed view");
        vectorised(
            #[inline(always)]
            || {
                for row in (0..self.rows).step_by(TILE) {
                    for column in (0..self.columns).step_by(TILE) {
                        self.turn_tile(row, column, into);
                    }
                }
            },
        );
    }

    /// Turns one tile: through a copy, so that each line of memory is read and written once.
    #[inline(always)]
    fn turn_tile(&self, row: usize, column: usize, into: &mut [f32]) {
        let high = TILE.min(self.rows - row);
        let wide = TILE.min(self.columns - column);
        let mut tile = [[0.0; TILE]; TILE];
        for (index, line) in tile[..high].iter_mut().enumerate() {
            let from = (row + index) * self.row_stride + column;
            line[..wide].copy_from_slice(&self.values[from..from + wide]);
        }
        if high == TILE {
            for index in 0..wide {
                let to = (column + index) * self.rows + row;
                let line: &mut [f32] = &mut into[to..to + TILE];
                for (value, tile) in line.iter_mut().zip(&tile) {
                    *value = tile[index];
                }
            }
        } else {
            for index in 0..wide {
                let to = (column + index) * self.rows + row;
                for (value, tile) in into[to..to + high].iter_mut().zip(&tile) {
                    *value = tile[index];
                }
            }
        }
    }

    /// Rows and columns.
    pub(crate) fn sides(&self) -> (usize, usize) {
        (self.rows, self.columns)
    }

    /// The slice, and how far apart rows and columns are in it; one of the two is 1.
    pub(crate) fn parts(self) -> (&'a [f32], usize, usize) {
        (self.values, self.row_stride, self.column_stride)
    }

    /// The same values with rows and columns exchanged.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }
}

/// A matrix to write to: rows of a slice, perhaps with gaps between them.
#[derive(Debug)]
pub struct MatrixMut<'a> {
    values: &'a mut [f32],
    rows: usize,
    columns: usize,
    stride: usize,
}

impl<'a> MatrixMut<'a> {
    /// A matrix stored row after row without gaps.
    ///
    /// # Panics
    /// If the slice has another length.
    pub fn new(values: &'a mut [f32], rows: usize, columns: usize) -> Self {
        assert_eq!(values.len(), rows * columns, "{rows} rows of {columns}");
        Self::strided(values, rows, columns, columns)
    }

    /// A matrix whose rows begin `stride` elements apart.
    ///
    /// # Panics
    /// If rows overlap or the last one ends outside the slice.
    pub fn strided(values: &'a mut [f32], rows: usize, columns: usize, stride: usize) -> Self {
        assert!(holds(values.len(), rows, columns, stride), "{rows} rows of {columns}, {stride}");
        assert!(stride >= columns, "rows of {columns} overlap, {stride} apart");
        Self { values, rows, columns, stride }
    }

    /// Rows and columns.
    pub(crate) fn sides(&self) -> (usize, usize) {
        (self.rows, self.columns)
    }

    /// The part that begins at this row and column.
    #[inline(always)]
    pub(crate) fn part(
        &mut self,
        row: usize,
        column: usize,
        rows: usize,
        columns: usize,
    ) -> MatrixMut<'_> {
        let values = &mut self.values[row * self.stride + column..];
        MatrixMut::strided(values, rows, columns, self.stride)
    }

    /// The slice, and how far apart rows are in it.
    pub(crate) fn raw(&mut self) -> (&mut [f32], usize) {
        (self.values, self.stride)
    }

    /// Becomes `keep` times itself plus `scale` times `other`, whose rows are `stride` apart.
    pub(crate) fn blend(&mut self, keep: f32, scale: f32, other: &[f32], stride: usize) {
        let rows = self.values.chunks_mut(self.stride).zip(other.chunks(stride));
        for (row, other) in rows.take(self.rows) {
            for (value, other) in row.iter_mut().zip(other).take(self.columns) {
                *value = if keep == 0.0 { scale * other } else { keep * *value + scale * other };
            }
        }
    }

    /// Becomes `left` times `right`.
    ///
    /// # Panics
    /// If the sides do not match.
    pub fn product(self, left: Matrix<'_>, right: Matrix<'_>) {
        self.combine(0.0, 1.0, left, right);
    }

    /// Adds `left` times `right`.
    ///
    /// # Panics
    /// If the sides do not match.
    pub fn add_product(self, left: Matrix<'_>, right: Matrix<'_>) {
        self.combine(1.0, 1.0, left, right);
    }

    /// Becomes `keep` times itself plus `input` times the transposed `weight`, which is stored row
    /// by row.
    ///
    /// The product wants columns; turning some rows at a time into `scratch`, of any length, is
    /// several times quicker than what it would do itself.
    ///
    /// # Panics
    /// If the sides do not match or `weight` is a transposed view.
    pub fn linear(self, keep: f32, input: Matrix<'_>, weight: Matrix<'_>, scratch: &mut [f32]) {
        assert_eq!(self.columns, weight.rows, "columns of the product");
        let inner = weight.columns.max(1);
        let panel = scratch.len() / inner / PANEL * PANEL;
        if panel == 0 {
            return self.combine(keep, 1.0, input, weight.transposed());
        }
        for start in (0..weight.rows).step_by(panel) {
            let wide = panel.min(weight.rows - start);
            let values = &weight.values[start * weight.row_stride..];
            let turned = &mut scratch[..wide * weight.columns];
            Matrix::strided(values, wide, weight.columns, weight.row_stride).turn(turned);
            MatrixMut::strided(&mut self.values[start..], self.rows, wide, self.stride).combine(
                keep,
                1.0,
                input,
                Matrix::new(turned, weight.columns, wide),
            );
        }
    }

    /// # Panics
    /// If this cannot be the product of the two.
    pub(crate) fn check(&self, left: Matrix<'_>, right: Matrix<'_>) {
        assert_eq!(self.rows, left.rows, "rows of the product");
        assert_eq!(self.columns, right.columns, "columns of the product");
        assert_eq!(left.columns, right.rows, "the inner side");
    }

    /// Becomes `keep` times itself plus `scale` times `left` times `right`, in this thread alone.
    ///
    /// With `keep` zero what was there before is not read, so it may be anything.
    ///
    /// # Panics
    /// If the sides do not match.
    pub fn combine(self, keep: f32, scale: f32, left: Matrix<'_>, right: Matrix<'_>) {
        self.check(left, right);
        // SAFETY: the constructors made sure that every element of the three views lies inside its
        // slice, the destination's rows do not overlap, and a mutable borrow overlaps no shared one.
        // Strides fit: they are lengths of slices, which never exceed `isize::MAX` bytes.
        unsafe {
            gemm::gemm(
                self.rows,
                self.columns,
                left.columns,
                self.values.as_mut_ptr(),
                1,
                self.stride.cast_signed(),
                keep != 0.0,
                left.values.as_ptr(),
                left.column_stride.cast_signed(),
                left.row_stride.cast_signed(),
                right.values.as_ptr(),
                right.column_stride.cast_signed(),
                right.row_stride.cast_signed(),
                keep,
                scale,
                false,
                false,
                false,
                gemm::Parallelism::None,
            );
        }
    }
}

/// Whether `rows` rows of `columns`, `stride` apart, end within `len`.
fn holds(len: usize, rows: usize, columns: usize, stride: usize) -> bool {
    if rows == 0 || columns == 0 {
        return true;
    }
    (rows - 1)
        .checked_mul(stride)
        .and_then(|start| start.checked_add(columns))
        .is_some_and(|end| end <= len)
}

/// Side of the tiles in which a matrix is turned: one line of memory.
const TILE: usize = 16;
/// Panels of a weight are a multiple of this wide: what the product takes at a time.
const PANEL: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{assert_close, numbers};

    fn naive(left: &[f32], right: &[f32], rows: usize, inner: usize, columns: usize) -> Vec<f64> {
        let mut out = vec![0.0; rows * columns];
        for row in 0..rows {
            for column in 0..columns {
                for middle in 0..inner {
                    out[row * columns + column] += f64::from(left[row * inner + middle])
                        * f64::from(right[middle * columns + column]);
                }
            }
        }
        out
    }

    #[test]
    fn products_of_many_sizes_are_those_of_three_loops() {
        for (rows, inner, columns) in
            [(1, 1, 1), (1, 40, 7), (3, 5, 2), (64, 32, 128), (70, 33, 65), (130, 300, 17)]
        {
            let (left, right) = (numbers(1, rows * inner), numbers(2, inner * columns));
            let exact = naive(&left, &right, rows, inner, columns);
            let one = Matrix::new(&left, rows, inner);
            let other = Matrix::new(&right, inner, columns);
            let mut out = vec![f32::NAN; rows * columns];
            MatrixMut::new(&mut out, rows, columns).product(one, other);
            assert_close(&out, &exact, 1e-4);
            MatrixMut::new(&mut out, rows, columns).combine(0.5, 2.0, one, other);
            let combined: Vec<f64> = exact.iter().map(|value| 2.5 * value).collect();
            assert_close(&out, &combined, 1e-4);
        }
    }

    #[test]
    fn strides_and_transposes_pick_the_right_elements() {
        let (rows, inner, columns) = (19, 37, 23);
        let (left, right) = (numbers(3, rows * inner), numbers(4, inner * columns));
        let exact = naive(&left, &right, rows, inner, columns);
        let mut turned = vec![0.0; inner * rows];
        for row in 0..rows {
            for middle in 0..inner {
                turned[middle * rows + row] = left[row * inner + middle];
            }
        }
        let mut spread = vec![9.0; inner * (columns + 5)];
        for (wide, row) in spread.chunks_exact_mut(columns + 5).zip(right.chunks_exact(columns)) {
            wide[..columns].copy_from_slice(row);
        }
        let mut out = vec![7.0; rows * (columns + 3)];
        MatrixMut::strided(&mut out, rows, columns, columns + 3).product(
            Matrix::new(&turned, inner, rows).transposed(),
            Matrix::strided(&spread, inner, columns, columns + 5),
        );
        for (row, exact) in out.chunks_exact(columns + 3).zip(exact.chunks_exact(columns)) {
            assert_close(&row[..columns], exact, 1e-4);
            assert_eq!(row[columns..], [7.0; 3]);
        }
    }

    #[test]
    fn a_turned_matrix_has_its_columns_as_rows() {
        for (rows, columns, stride) in [(1, 1, 1), (16, 32, 32), (17, 40, 45), (5, 3, 9)] {
            let values = numbers(5, rows * stride);
            let mut turned = vec![f32::NAN; rows * columns];
            Matrix::strided(&values, rows, columns, stride).turn(&mut turned);
            for row in 0..rows {
                for column in 0..columns {
                    assert_eq!(turned[column * rows + row], values[row * stride + column]);
                }
            }
        }
    }

    #[test]
    fn linear_is_the_product_whatever_the_scratch() {
        let (rows, inner, wide) = (9, 21, 150);
        let (input, weight) = (numbers(6, rows * inner), numbers(7, wide * inner));
        let (input, weight) = (Matrix::new(&input, rows, inner), Matrix::new(&weight, wide, inner));
        let mut expected = numbers(8, rows * wide);
        let begin = expected.clone();
        MatrixMut::new(&mut expected, rows, wide).add_product(input, weight.transposed());
        for room in [0, 64 * 21, 64 * 22, 150 * 21, 200 * 21] {
            let mut out = begin.clone();
            let mut scratch = vec![f32::NAN; room];
            MatrixMut::new(&mut out, rows, wide).linear(1.0, input, weight, &mut scratch);
            assert_close(&out, &crate::reference::wide(&expected), 1e-5);
        }
    }

    #[test]
    #[should_panic(expected = "4 rows of 3")]
    fn a_view_beyond_the_slice_is_refused() {
        Matrix::strided(&[0.0; 12], 4, 3, 4);
    }

    #[test]
    #[should_panic(expected = "the inner side")]
    fn sides_that_do_not_match_are_refused() {
        let mut out = [0.0; 4];
        MatrixMut::new(&mut out, 2, 2)
            .product(Matrix::new(&[0.0; 6], 2, 3), Matrix::new(&[0.0; 4], 2, 2));
    }
}
