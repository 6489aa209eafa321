//! Tiles of bfloat16 (AMX): sixteen rows of pairs times sixteen columns of pairs, summed in
//! float32.
//!
//! The compiler's own functions for them are not stable yet, hence assembly. Of each product of
//! tiles the machine sums the pairs' first halves and their second halves apart, each with fused
//! multiply-adds in rising order from 0, and adds the sum of the two to the target. Subnormal
//! numbers count as 0.

/// Whether this process may use them: the machine has them, and the system grants their memory.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) fn present() -> bool {
    use std::arch::asm;
    use std::arch::x86_64::__cpuid_count;
    use std::sync::LazyLock;

    static PRESENT: LazyLock<bool> = LazyLock::new(|| {
        const TILES_AND_BF16: u32 = 1 << 24 | 1 << 22;
        const ARCH_PRCTL: i64 = 158;
        const REQUEST_PERMISSION: u64 = 0x1023;
        const TILE_DATA: u64 = 18;
        if __cpuid_count(0, 0).eax < 7 || __cpuid_count(7, 0).edx & TILES_AND_BF16 != TILES_AND_BF16
        {
            return false;
        }
        // Fails on kernels that do not know tiles, and where they are not enabled.
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

/// Whether this process may use them: not here.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub(crate) fn present() -> bool {
    false
}
