//! AMX's tiles of bytes and of bfloat16: whether they may be used, and their shapes.
//!
//! Rust's intrinsics for tiles are not stable yet, so all uses of tiles are assembly. Tile
//! registers keep their contents from one block of assembly to the next, because compilers do not
//! use them on their own.

/// Whether this process may use tiles: the machine has both kinds, and the operating system grants
/// the memory to save them.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) fn present() -> bool {
    use std::arch::asm;
    use std::sync::LazyLock;

    static PRESENT: LazyLock<bool> = LazyLock::new(|| {
        const ARCH_PRCTL: i64 = 158;
        const REQUEST_PERMISSION: u64 = 0x1023;
        const TILE_DATA: u64 = 18;
        if !machine_has_them() {
            return false;
        }
        // The permission holds for all threads of the process, so one call suffices. It is needed
        // because tiles enlarge the state that the kernel saves for a thread. A kernel refuses if
        // it does not know tiles or has them disabled.
        let mut result = ARCH_PRCTL;
        // SAFETY: the call asks for a larger register state of this process's threads and changes
        // no memory of ours; the kernel overwrites rcx and r11.
        unsafe {
            asm!("syscall", inlateout("rax") result, in("rdi") REQUEST_PERMISSION,
                in("rsi") TILE_DATA, out("rcx") _, out("r11") _, options(nostack));
        }
        result == 0
    });
    *PRESENT
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn machine_has_them() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
    #[target_feature(enable = "xsave")]
    fn enabled_state() -> u64 {
        // SAFETY: the caller has looked for OSXSAVE.
        unsafe { _xgetbv(0) }
    }
    // Leaf 7: bit 22 is AMX-BF16, 24 AMX-TILE, 25 AMX-INT8. State components 17 and 18 are the
    // tiles'.
    const ALL: u32 = 1 << 22 | 1 << 24 | 1 << 25;
    const OSXSAVE: u32 = 1 << 27;
    __cpuid(0).eax >= 7
        && __cpuid(1).ecx & OSXSAVE != 0
        && __cpuid_count(7, 0).edx & ALL == ALL
        // SAFETY: OSXSAVE means that the instruction exists.
        && unsafe { enabled_state() } >> 17 & 0b11 == 0b11
}

/// The operand of `ldtilecfg`, in the layout that the processor defines.
#[cfg(target_arch = "x86_64")]
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// Sets the shape of each of this thread's eight tiles: the number of rows, and the bytes of a row.
///
/// # Safety
/// The tier must have tiles; there are 1 to 16 rows of 1 to 64 bytes.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn configure(shapes: [(usize, usize); 8]) {
    let mut config = Config {
        palette: 1,
        start_row: 0,
        reserved: [0; 14],
        row_bytes: [0; 16],
        rows: [0; 16],
    };
    for (tile, (rows, row_bytes)) in shapes.into_iter().enumerate() {
        config.rows[tile] = rows as u8;
        config.row_bytes[tile] = row_bytes as u16;
    }
    // SAFETY: the caller's promise.
    unsafe {
        std::arch::asm!("ldtilecfg [{}]", in(reg) &raw const config, options(nostack, readonly));
    }
}

/// Releases this thread's tiles. While they are in use, the system saves them at every switch
/// between threads.
///
/// # Safety
/// The tier must have tiles.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn release() {
    // SAFETY: the caller's promise.
    unsafe { std::arch::asm!("tilerelease", options(nostack, nomem)) };
}

/// Whether this process may use tiles, which this platform does not support.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub(crate) fn present() -> bool {
    false
}
