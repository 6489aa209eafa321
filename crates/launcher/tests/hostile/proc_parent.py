"""Reads what `/proc` shows of its parent, of the other process and of all processes."""
import os
import sys

pids = {str(os.getppid()), sys.argv[3]}
try:
    pids |= {name for name in os.listdir("/proc") if name.isdigit() and name != str(os.getpid())}
except OSError as error:
    print(error)
for pid in pids:
    for name in ("environ", "cmdline", "maps", "mem", "stack"):
        try:
            with open(f"/proc/{pid}/{name}", "rb") as file:
                print(pid, name, file.read(1 << 16))
        except OSError as error:
            print(pid, name, error.strerror)
    for name in ("exe", "cwd", "root", "fd/3"):
        try:
            print(pid, name, os.readlink(f"/proc/{pid}/{name}"))
        except OSError as error:
            print(pid, name, error.strerror)
