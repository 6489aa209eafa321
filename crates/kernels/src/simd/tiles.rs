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

/// The number of rows of each of the eight tiles, and the bytes of a row.
#[cfg(any(test, target_arch = "x86_64"))]
pub(crate) type Shapes = [(usize, usize); 8];

/// Sets the shapes of this thread's tiles.
///
/// # Safety
/// The tier must have tiles; there are 1 to 16 rows of 1 to 64 bytes.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn configure(shapes: Shapes) {
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

/// The tile registers of a thread, or in tests a model of them. `T`, `C`, `A` and `B` are numbers of
/// tiles, 0 to 7.
///
/// # Safety
/// All operations need the permission to use the tiles, and all but `configure` and `release` need
/// configured tiles.
#[cfg(any(test, all(target_arch = "x86_64", target_os = "linux")))]
pub(crate) trait TileRegisters {
    /// See [`configure`].
    unsafe fn configure(&mut self, shapes: Shapes);
    /// See [`release`].
    unsafe fn release(&mut self);
    unsafe fn zero<const T: usize>(&mut self);
    /// Loads the rows of a tile, which are `stride` bytes apart.
    ///
    /// # Safety
    /// The rows must be valid for reading.
    unsafe fn load<const T: usize>(&mut self, from: *const u8, stride: usize);
    /// Stores the rows of a tile, which are `stride` bytes apart.
    ///
    /// # Safety
    /// The rows must be valid for writing.
    unsafe fn store<const T: usize>(&mut self, to: *mut f32, stride: usize);
    /// Adds the products of rows of `A` and columns of `B` to `C`, pairs of bfloat16 at a time.
    unsafe fn multiply<const C: usize, const A: usize, const B: usize>(&mut self);
}

/// The tile registers of the processor.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) struct Amx;

// SAFETY of every block below: the callers' promises.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
impl TileRegisters for Amx {
    unsafe fn configure(&mut self, shapes: Shapes) {
        // SAFETY: see above the impl.
        unsafe { configure(shapes) };
    }
    unsafe fn release(&mut self) {
        // SAFETY: see above the impl.
        unsafe { release() };
    }
    #[inline(always)]
    unsafe fn zero<const T: usize>(&mut self) {
        // SAFETY: see above the impl.
        unsafe { std::arch::asm!("tilezero tmm{}", const T, options(nostack)) };
    }
    #[inline(always)]
    unsafe fn load<const T: usize>(&mut self, from: *const u8, stride: usize) {
        // SAFETY: see above the impl.
        unsafe {
            std::arch::asm!("tileloadd tmm{}, [{} + {}]", const T, in(reg) from, in(reg) stride,
                options(nostack, readonly));
        }
    }
    #[inline(always)]
    unsafe fn store<const T: usize>(&mut self, to: *mut f32, stride: usize) {
        // SAFETY: see above the impl.
        unsafe {
            std::arch::asm!("tilestored [{} + {}], tmm{}", in(reg) to, in(reg) stride, const T,
                options(nostack));
        }
    }
    #[inline(always)]
    unsafe fn multiply<const C: usize, const A: usize, const B: usize>(&mut self) {
        // SAFETY: see above the impl.
        unsafe {
            std::arch::asm!("tdpbf16ps tmm{}, tmm{}, tmm{}", const C, const A, const B,
                options(nostack));
        }
    }
}

/// A model of AMX's tile registers, after Intel's description of the instructions. Bytes beyond a
/// tile's shape are poison.
#[cfg(test)]
pub(crate) struct Model {
    shapes: Shapes,
    tiles: [[[u8; 64]; 16]; 8],
}

#[cfg(test)]
impl Default for Model {
    fn default() -> Self {
        Self {
            shapes: [(0, 0); 8],
            tiles: [[[0xff; 64]; 16]; 8],
        }
    }
}

#[cfg(test)]
impl Model {
    fn floats(&self, tile: usize, row: usize) -> [f32; 16] {
        let words = self.tiles[tile][row].as_chunks::<4>().0;
        std::array::from_fn(|i| f32::from_le_bytes(words[i]))
    }

    /// The bfloat16 at an index of a row.
    fn half(&self, tile: usize, row: usize, i: usize) -> f32 {
        let bytes = &self.tiles[tile][row][2 * i..][..2];
        f32::from_bits(u32::from(u16::from_le_bytes([bytes[0], bytes[1]])) << 16)
    }
}

#[cfg(test)]
impl TileRegisters for Model {
    unsafe fn configure(&mut self, shapes: Shapes) {
        self.shapes = shapes;
        self.tiles = [[[0xff; 64]; 16]; 8];
    }
    unsafe fn release(&mut self) {
        self.shapes = [(0, 0); 8];
    }
    unsafe fn zero<const T: usize>(&mut self) {
        self.tiles[T] = [[0; 64]; 16];
    }
    unsafe fn load<const T: usize>(&mut self, from: *const u8, stride: usize) {
        let (rows, bytes) = self.shapes[T];
        for row in 0..rows {
            // SAFETY: the caller's promise.
            let line = unsafe { std::slice::from_raw_parts(from.add(row * stride), bytes) };
            self.tiles[T][row][..bytes].copy_from_slice(line);
        }
    }
    unsafe fn store<const T: usize>(&mut self, to: *mut f32, stride: usize) {
        let (rows, bytes) = self.shapes[T];
        for row in 0..rows {
            // SAFETY: the caller's promise.
            let line =
                unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>().add(row * stride), bytes) };
            line.copy_from_slice(&self.tiles[T][row][..bytes]);
        }
    }
    unsafe fn multiply<const C: usize, const A: usize, const B: usize>(&mut self) {
        let ((rows, bytes), pairs) = (self.shapes[C], self.shapes[A].1 / 4);
        assert_eq!((self.shapes[A].0, self.shapes[B].0), (rows, pairs));
        assert_eq!(self.shapes[B].1, bytes);
        for row in 0..rows {
            let mut sums = self.floats(C, row);
            for (column, sum) in sums.iter_mut().enumerate().take(bytes / 4) {
                let mut halves = [0.0_f32; 2];
                for pair in 0..pairs {
                    for (odd, half) in halves.iter_mut().enumerate() {
                        let a = self.half(A, row, 2 * pair + odd);
                        let b = self.half(B, pair, 2 * column + odd);
                        *half = a.mul_add(b, *half);
                    }
                }
                *sum += halves[0] + halves[1];
            }
            for (bytes, sum) in self.tiles[C][row]
                .as_chunks_mut::<4>()
                .0
                .iter_mut()
                .zip(sums)
            {
                *bytes = sum.to_le_bytes();
            }
        }
    }
}

/// Whether this process may use tiles, which this platform does not support.
#[cfg(all(target_arch = "x86_64", not(target_os = "linux")))]
pub(crate) fn present() -> bool {
    false
}
