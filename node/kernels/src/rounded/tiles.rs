//! The instructions of the tile unit of newer Xeons (AMX).

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;

use super::pack::{Line, SIDE, STEP_LINES};

/// Whether this machine has the unit and lets this process use it.
pub(super) fn permitted() -> bool {
    cfg!(target_os = "linux") && has_tiles() && ask_permission()
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

/// Sets the unit up for tiles of 16 lines in this thread.
///
/// # Safety
/// The unit is there and may be used.
pub(super) unsafe fn configure() {
    // SAFETY: the configuration is the 64 bytes that are read.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const CONFIG, options(nostack, readonly)) };
}

/// Ends what `configure` began: without tiles in use threads are changed more quickly.
///
/// # Safety
/// The unit is there and may be used.
pub(super) unsafe fn release() {
    // SAFETY: the caller's.
    unsafe { asm!("tilerelease", options(nostack, nomem)) };
}

/// The product of 32 rows and 32 columns, `stride` apart in `out`.
///
/// # Safety
/// The unit is set up in this thread, both sides have as many steps, and `out` holds 32 rows.
#[inline(always)]
pub(super) unsafe fn block(
    left: &[Line],
    right: &[Line],
    out: &mut [f32],
    stride: usize,
    add: bool,
) {
    let steps = left.len() / STEP_LINES;
    let stride = stride * size_of::<f32>();
    // SAFETY: what is read and written lies within the slices, as the caller promised.
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
