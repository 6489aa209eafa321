"""Makes namespaces, in which it would be root, and mounts."""
import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
for name, call in [
    ("unshare", lambda: libc.unshare(0x10000000)),
    ("clone", lambda: libc.syscall({"x86_64": 56}.get(os.uname().machine, 220), 0x10000000 | 17, 0, 0, 0, 0)),
    ("mount", lambda: libc.mount(b"none", os.getcwd().encode(), b"tmpfs", 0, None)),
    ("chroot", lambda: libc.chroot(b".")),
    ("setuid", lambda: libc.setuid(0)),
]:
    done = call()
    if name == "clone" and done == 0:
        os._exit(0)
    print(name, "succeeded" if done >= 0 else "failed")
