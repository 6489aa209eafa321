//! Whether AMX's tiles of bytes and of bfloat16 may be used.
//!
//! The compiler's own functions for them are not stable yet, hence assembly, here and where they are used.

/// Whether this process may use them: the machine has both kinds, and the system grants their memory.
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
        // Once for all threads of the process: tiles enlarge what the system saves of a thread. Fails on
        // kernels that do not know them, and where they are not enabled.
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
    // Leaf 7: bit 22 is AMX-BF16, 24 AMX-TILE, 25 AMX-INT8. State components 17 and 18 are the tiles'.
    const ALL: u32 = 1 << 22 | 1 << 24 | 1 << 25;
    const OSXSAVE: u32 = 1 << 27;
    __cpuid(0).eax >= 7
        && __cpuid(1).ecx & OSXSAVE != 0
        && __cpuid_count(7, 0).edx & ALL == ALL
        // SAFETY: OSXSAVE says that the instruction is there.
        && unsafe { enabled_state() } >> 17 & 0b11 == 0b11
}

/// Whether this process may use them: not here.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub(crate) fn present() -> bool {
    false
}
