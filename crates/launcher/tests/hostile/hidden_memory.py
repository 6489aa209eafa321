"""Takes memory that no limit on an address space counts: files in memory, shared memory."""
import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
for name, take in [
    ("file", lambda: os.memfd_create("x")),
    ("segment", lambda: libc.shmget(0, 1 << 30, 0o1600)),
    ("folder", lambda: os.open("/dev/shm/x", os.O_CREAT | os.O_RDWR)),
]:
    try:
        print("took a" if take() >= 0 else "refused a", name)
    except OSError as error:
        print(f"refused a {name}: {error}")
