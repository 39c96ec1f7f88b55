//! Products by the bf16 instructions of vectors (AVX-512 BF16).
//!
//! A product of pairs takes as long as one of single f32 does on some processors (AMD's), and twice as
//! long on others.

use std::arch::x86_64::{
    __cpuid, __m512, __m512bh, _mm512_dpbf16_ps, _mm512_load_si512, _mm512_loadu_ps,
    _mm512_set1_epi32, _mm512_setzero_ps, _mm512_storeu_ps,
};
use std::mem::transmute;

use super::BLOCK;
use super::pack::{Line, SIDE, STEP_LINES};

/// Whether pairs take no longer than single values here: who made the processor tells.
pub(super) fn are_quick() -> bool {
    let maker = __cpuid(0);
    [maker.ebx, maker.edx, maker.ecx].map(u32::to_le_bytes).concat() == *b"AuthenticAMD"
}

/// The product of 32 rows and 32 columns, `stride` apart in `out`.
///
/// # Safety
/// The processor has the features named here.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn block(
    left: &[Line],
    right: &[Line],
    out: &mut [f32],
    stride: usize,
    add: bool,
) {
    for first in (0..BLOCK).step_by(ROWS) {
        let rows = &mut out[first * stride..];
        let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
        if add {
            for (index, sums) in sums.iter_mut().enumerate() {
                let row = &rows[index * stride..][..BLOCK];
                // SAFETY: a row has two vectors.
                *sums = unsafe { [0, SIDE].map(|at| _mm512_loadu_ps(row[at..].as_ptr())) };
            }
        }
        for (left, right) in left.chunks_exact(STEP_LINES).zip(right.chunks_exact(STEP_LINES)) {
            let left: &[Line; ROWS] = left[first..].first_chunk().expect("a part of two tiles");
            step(left, right, &mut sums);
        }
        for (index, sums) in sums.into_iter().enumerate() {
            let row = &mut rows[index * stride..][..BLOCK];
            for (values, sum) in row.chunks_exact_mut(SIDE).zip(sums) {
                // SAFETY: there is room for one vector.
                unsafe { _mm512_storeu_ps(values.as_mut_ptr(), sum) };
            }
        }
    }
}

/// Adds the products of one step of the inner side: some rows with two tiles of columns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn step(left: &[Line; ROWS], right: &[Line], sums: &mut [[__m512; 2]; ROWS]) {
    let (low, high) = right.split_at(SIDE);
    for pair in 0..SIDE {
        let columns = [&low[pair], &high[pair]].map(|line| {
            // SAFETY: a line is 64 bytes, aligned to them, that may be anything.
            unsafe { transmute::<_, __m512bh>(_mm512_load_si512((&raw const *line).cast())) }
        });
        for (line, sums) in left.iter().zip(sums.iter_mut()) {
            let both = _mm512_set1_epi32(line.pair(pair).cast_signed());
            // SAFETY: both are 64 bytes that may be anything.
            let both: __m512bh = unsafe { transmute(both) };
            for (sum, columns) in sums.iter_mut().zip(columns) {
                *sum = _mm512_dpbf16_ps(*sum, both, columns);
            }
        }
    }
}

/// Rows whose sums stay in registers, two vectors of each.
const ROWS: usize = 8;
