"""Attaches to other processes, and reads their memory."""
import ctypes
import os
import sys

libc = ctypes.CDLL(None, use_errno=True)
for pid in {os.getppid(), int(sys.argv[3]), 1}:
    attached = libc.ptrace(16, pid, 0, 0) == 0
    print("attached" if attached else os.strerror(ctypes.get_errno()))
    buffer = ctypes.create_string_buffer(8)
    part = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 8)
    read = libc.process_vm_readv(pid, part, 1, part, 1, 0)
    print("read" if read >= 0 else os.strerror(ctypes.get_errno()))
