//! The instructions of the tile unit.

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;
use std::sync::LazyLock;

use super::pack::{Line, Operand, SIDE, STEP_LINES, steps};
use crate::matrix::MatrixMut;

/// Whether this machine has the unit and lets this process use it.
pub(super) fn permitted() -> bool {
    static PERMITTED: LazyLock<bool> = LazyLock::new(|| {
        let vectors = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512bf16");
        vectors && has_tiles() && ask_permission()
    });
    *PERMITTED
}

/// Whether the processor has tiles and multiplies bf16 in them.
fn has_tiles() -> bool {
    // Bits 22 and 24 of edx.
    __cpuid_count(7, 0).edx & 0x0140_0000 == 0x0140_0000
}

/// Linux keeps tiles over a change of threads only for processes that asked for it.
fn ask_permission() -> bool {
    const ARCH_PRCTL: isize = 158;
    const ARCH_REQ_XCOMP_PERM: usize = 0x1023;
    const TILE_DATA: usize = 18;
    let answer: isize;
    // SAFETY: this call changes nothing but what the process may use; the registers that the kernel
    // overwrites are named.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => answer,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") TILE_DATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    answer == 0
}

/// The unit, set up for tiles of 16 lines, until this is dropped.
///
/// It belongs to the thread that began it.
#[derive(Debug)]
pub(super) struct Session {
    _here: std::marker::PhantomData<*const ()>,
}

impl Session {
    /// # Panics
    /// If the unit may not be used.
    pub(super) fn begin() -> Self {
        assert!(permitted(), "the tile unit may not be used");
        // SAFETY: the unit is there, and the configuration is the 64 bytes that it reads.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const CONFIG, options(nostack, readonly)) };
        Self { _here: std::marker::PhantomData }
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
    #[expect(clippy::unused_self, reason = "a session proves that the instructions are there")]
    #[inline(always)]
    fn block(&self, left: &[Line], right: &[Line], out: &mut [f32], stride: usize, add: bool) {
        let steps = left.len() / STEP_LINES;
        assert!(steps > 0 && left.len() == steps * STEP_LINES && right.len() == left.len());
        assert!(out.len() >= (BLOCK - 1) * stride + BLOCK && stride >= BLOCK);
        let stride = stride * size_of::<f32>();
        // SAFETY: what is read and written lies within the slices, as asserted; the session has set
        // up eight tiles of 16 lines of 64 bytes.
        unsafe {
            asm!(
                "test {add:e}, {add:e}",
                "jz 2f",
                "tileloadd tmm0, [{out} + {stride}]",
                "tileloadd tmm1, [{out} + {stride} + 64]",
                "tileloadd tmm2, [{low} + {stride}]",
                "tileloadd tmm3, [{low} + {stride} + 64]",
                "jmp 3f",
                "2:",
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "3:",
                "tileloadd tmm4, [{left} + {line}]",
                "tileloadd tmm6, [{right} + {line}]",
                "tileloadd tmm7, [{right} + {line} + 1024]",
                "tileloadd tmm5, [{left} + {line} + 1024]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {left}, 2048",
                "add {right}, 2048",
                "dec {steps}",
                "jnz 3b",
                "tilestored [{out} + {stride}], tmm0",
                "tilestored [{out} + {stride} + 64], tmm1",
                "tilestored [{low} + {stride}], tmm2",
                "tilestored [{low} + {stride} + 64], tmm3",
                add = in(reg) u32::from(add),
                out = in(reg) out.as_mut_ptr(),
                low = in(reg) out.as_mut_ptr().byte_add(SIDE * stride),
                stride = in(reg) stride,
                line = in(reg) size_of::<Line>(),
                left = inout(reg) left.as_ptr() => _,
                right = inout(reg) right.as_ptr() => _,
                steps = inout(reg) steps => _,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: the unit is there; without tiles in use threads are changed more quickly.
        unsafe { asm!("tilerelease", options(nostack, nomem)) };
    }
}

/// What `ldtilecfg` reads: palette 1, every tile 16 lines of 64 bytes.
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    line_bytes: [u16; 16],
    lines: [u8; 16],
}

static CONFIG: Config = {
    let mut config =
        Config { palette: 1, start: 0, reserved: [0; 14], line_bytes: [0; 16], lines: [0; 16] };
    let mut tile = 0;
    while tile < 8 {
        config.line_bytes[tile] = 64;
        config.lines[tile] = 16;
        tile += 1;
    }
    config
};

/// Lines of the right side that rows are multiplied with one after another: they and the rows stay
/// in the first cache.
const NEAR: usize = 384;
/// Rows and columns that are multiplied together: two tiles of each.
const BLOCK: usize = 2 * SIDE;
