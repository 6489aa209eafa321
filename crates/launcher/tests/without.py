"""Starts a program as a user and on a system that lacks something: without.py USER LACKING... -- PROGRAM ARGUMENTS.

USER is a number or `-`. LACKING is `namespaces` or `mounts`, as in a container, or `landlock` or `seccomp`, as on an old system: a
filter of system calls answers as such a system does.
"""

import ctypes
import errno
import os
import struct
import sys

CALLS = {
    "x86_64": {"namespaces": 272, "mounts": 165, "landlock": 444, "seccomp": 317},
    "aarch64": {"namespaces": 97, "mounts": 40, "landlock": 444, "seccomp": 277},
}
ERRORS = {"namespaces": errno.EPERM, "mounts": errno.EPERM, "landlock": errno.ENOSYS, "seccomp": errno.EINVAL}


def forbid(names):
    """Installs the filter: it loads the number of the call and compares it with one after the other."""
    program = [struct.pack("HBBI", 0x20, 0, 0, 0)]
    for name in names:
        program.append(struct.pack("HBBI", 0x15, 0, 1, CALLS[os.uname().machine][name]))
        program.append(struct.pack("HBBI", 0x06, 0, 0, 0x00050000 | ERRORS[name]))
    program.append(struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000))
    code = ctypes.create_string_buffer(b"".join(program))
    header = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_ulong]
    if prctl(38, 1, None, 0, 0) or prctl(22, 2, header, 0, 0):
        sys.exit(f"no filter: {os.strerror(ctypes.get_errno())}")


at = sys.argv.index("--")
user, *lacking = sys.argv[1:at]
if user != "-":
    os.setgroups([])
    os.setgid(int(user))
    os.setuid(int(user))
if lacking:
    forbid(lacking)
os.execv(sys.argv[at + 1], sys.argv[at + 1 :])
