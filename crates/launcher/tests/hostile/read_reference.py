"""Reads a file that it was not given, by all the names that lead to it."""
import os
import sys

secret = sys.argv[1]
relative = os.path.relpath(secret, os.getcwd())
names = [secret, relative, "/proc/self/root" + secret, "/proc/self/cwd/" + relative, "/proc/1/root" + secret]
names += [f"/proc/{os.getppid()}/root{secret}", f"/old_root{secret}", f"/mnt{secret}"]
for name in names:
    try:
        with open(name) as file:
            print(file.read())
    except OSError as error:
        print(name, error.strerror)
