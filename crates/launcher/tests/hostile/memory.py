"""Takes two gigabytes of memory."""
import mmap

kept = []
try:
    for _ in range(32):
        kept.append(mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        for at in range(0, 64 << 20, 4096):
            kept[-1][at] = 1
    print("took it")
except (OSError, MemoryError) as error:
    print(f"refused after {len(kept) * 64} MiB: {error}")
