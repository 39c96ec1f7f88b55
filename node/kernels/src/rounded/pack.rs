//! Operands of a product, rounded to bf16 and laid out as tiles.
//!
//! A tile is 16 lines of 16 pairs; a pair is two neighbours of the inner side. A line of the left
//! tile is a row with its pairs along it; a line of the right tile is a pair with the columns along
//! it. Two tiles of one step of the inner side lie together, because they are multiplied together.

use std::arch::x86_64::{
    __m512, __m512i, _MM_HINT_T1, _mm_prefetch, _mm512_cvtne2ps_pbh, _mm512_maskz_loadu_ps,
    _mm512_permutexvar_epi16, _mm512_setzero_si512, _mm512_shuffle_i32x4, _mm512_store_si512,
    _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
};

use crate::matrix::Matrix;

/// One line of a tile: 16 pairs of bf16.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Line([u32; SIDE]);

impl Line {
    pub(super) const ZERO: Self = Self([0; SIDE]);

    /// One of its pairs.
    #[inline(always)]
    pub(super) fn pair(&self, index: usize) -> u32 {
        self.0[index]
    }
}

/// Lines that an operand of so many rows or columns and of this depth takes.
pub(super) const fn lines(count: usize, inner: usize) -> usize {
    count.div_ceil(2 * SIDE) * steps(inner) * STEP_LINES
}

/// Steps of the inner side.
pub(super) const fn steps(inner: usize) -> usize {
    inner.div_ceil(DEPTH)
}

/// One side of a product: rows of the left one or columns of the right one, and the inner side.
#[derive(Debug)]
pub(super) struct Operand<'a> {
    values: &'a [f32],
    /// Elements from one row or column to the next.
    stride: usize,
    /// Elements from one of the inner side to the next; one of the two strides is 1.
    inner_stride: usize,
    /// Whether a line of a tile goes along the inner side.
    left: bool,
}

impl<'a> Operand<'a> {
    pub(super) fn left(matrix: Matrix<'a>) -> Self {
        let (values, stride, inner_stride) = matrix.parts();
        Self { values, stride, inner_stride, left: true }
    }

    pub(super) fn right(matrix: Matrix<'a>) -> Self {
        let (values, inner_stride, stride) = matrix.parts();
        Self { values, stride, inner_stride, left: false }
    }

    /// Lays a part of this side out as tiles: rows or columns `(first, count)`, of the inner side
    /// `(depth, deep)`.
    ///
    /// # Safety
    /// The processor has the features named here, and the part lies within the matrix.
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    pub(super) unsafe fn pack(
        &self,
        (first, count): (usize, usize),
        (depth, deep): (usize, usize),
        into: &mut [Line],
    ) {
        let blocks = into.chunks_exact_mut(steps(deep) * STEP_LINES);
        for (block, lines) in blocks.take(count.div_ceil(2 * SIDE)).enumerate() {
            for (step, tiles) in lines.chunks_exact_mut(STEP_LINES).enumerate() {
                for (half, tile) in tiles.chunks_exact_mut(SIDE).enumerate() {
                    let (from, inner) = ((2 * block + half) * SIDE, step * DEPTH);
                    let have = count.saturating_sub(from).min(SIDE);
                    // SAFETY: the caller's, of which this is a part.
                    unsafe {
                        self.tile((first + from, have), (depth + inner, deep - inner), tile);
                    }
                }
            }
        }
    }

    /// One tile: up to 16 rows or columns, up to 32 of the inner side.
    ///
    /// # Safety
    /// As [`Operand::pack`].
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn tile(
        &self,
        (first, count): (usize, usize),
        (depth, deep): (usize, usize),
        into: &mut [Line],
    ) {
        let along = self.inner_stride == 1;
        let mut lines = [_mm512_setzero_si512(); SIDE];
        let start =
            self.values.as_ptr().wrapping_add(first * self.stride + depth * self.inner_stride);
        if along {
            for (index, line) in lines.iter_mut().enumerate().take(count) {
                let from = start.wrapping_add(index * self.stride);
                for ahead in [2 * DEPTH, 2 * DEPTH + SIDE] {
                    // Into the second cache: rows a power of two apart push each other out of the first.
                    _mm_prefetch::<_MM_HINT_T1>(from.wrapping_add(ahead).cast());
                }
                // SAFETY: as many elements of this row lie within the matrix.
                *line = unsafe {
                    pair(load(from, deep), load(from.wrapping_add(SIDE), deep.saturating_sub(SIDE)))
                };
            }
        } else {
            for (index, line) in lines.iter_mut().enumerate().take(deep.div_ceil(2)) {
                let from = start.wrapping_add(2 * index * self.inner_stride);
                let next = if 2 * index + 1 < deep { count } else { 0 };
                // SAFETY: as many elements of these two rows lie within the matrix.
                let both = unsafe {
                    pair(load(from, count), load(from.wrapping_add(self.inner_stride), next))
                };
                *line = _mm512_permutexvar_epi16(weave(), both);
            }
        }
        if along != self.left {
            lines = turned(lines);
        }
        for (line, value) in into.iter_mut().zip(lines) {
            // SAFETY: a line is 64 bytes and aligned to them.
            unsafe { _mm512_store_si512((&raw mut *line).cast(), value) };
        }
    }
}

/// Up to 16 values, zero beyond `count`.
///
/// # Safety
/// The first `count` of them may be read, if these are fewer than 16.
#[target_feature(enable = "avx512f")]
unsafe fn load(from: *const f32, count: usize) -> __m512 {
    let mask = if count >= SIDE { u16::MAX } else { (1 << count) - 1 };
    // SAFETY: the caller's; values behind the mask are not touched.
    unsafe { _mm512_maskz_loadu_ps(mask, from) }
}

/// 32 values rounded, those of `low` first.
#[target_feature(enable = "avx512f,avx512bf16")]
fn pair(low: __m512, high: __m512) -> __m512i {
    // SAFETY: both are 64 bytes that may be anything.
    unsafe { std::mem::transmute(_mm512_cvtne2ps_pbh(high, low)) }
}

/// Puts each value of the lower half beside that of the upper.
#[target_feature(enable = "avx512f")]
fn weave() -> __m512i {
    const ORDER: [u16; 2 * SIDE] = {
        let mut order = [0; 2 * SIDE];
        let mut index: u16 = 0;
        while (index as usize) < SIDE {
            order[2 * index as usize] = index;
            order[2 * index as usize + 1] = 16 + index;
            index += 1;
        }
        order
    };
    // SAFETY: both are 64 bytes that may be anything.
    unsafe { std::mem::transmute(ORDER) }
}

/// Lines become columns.
#[target_feature(enable = "avx512f")]
fn turned(lines: [__m512i; SIDE]) -> [__m512i; SIDE] {
    let mut pairs = lines;
    for two in 0..SIDE / 2 {
        let (one, other) = (lines[2 * two], lines[2 * two + 1]);
        pairs[2 * two] = _mm512_unpacklo_epi32(one, other);
        pairs[2 * two + 1] = _mm512_unpackhi_epi32(one, other);
    }
    let mut fours = pairs;
    for four in 0..SIDE / 4 {
        let [a, b, c, d] = [0, 1, 2, 3].map(|index| pairs[4 * four + index]);
        fours[4 * four] = _mm512_unpacklo_epi64(a, c);
        fours[4 * four + 1] = _mm512_unpackhi_epi64(a, c);
        fours[4 * four + 2] = _mm512_unpacklo_epi64(b, d);
        fours[4 * four + 3] = _mm512_unpackhi_epi64(b, d);
    }
    let mut out = fours;
    for index in 0..4 {
        let [a, b, c, d] = [0, 4, 8, 12].map(|four| fours[four + index]);
        let (low, high) = (_mm512_shuffle_i32x4::<0x88>(a, b), _mm512_shuffle_i32x4::<0x88>(c, d));
        out[index] = _mm512_shuffle_i32x4::<0x88>(low, high);
        out[index + 8] = _mm512_shuffle_i32x4::<0xdd>(low, high);
        let (low, high) = (_mm512_shuffle_i32x4::<0xdd>(a, b), _mm512_shuffle_i32x4::<0xdd>(c, d));
        out[index + 4] = _mm512_shuffle_i32x4::<0x88>(low, high);
        out[index + 12] = _mm512_shuffle_i32x4::<0xdd>(low, high);
    }
    out
}

/// Rows or columns of a tile.
pub(super) const SIDE: usize = 16;
/// What a tile has of the inner side.
const DEPTH: usize = 32;
/// Lines of the two tiles of one step.
pub(super) const STEP_LINES: usize = 2 * SIDE;
