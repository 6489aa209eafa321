"""Reads the files that were left open for it."""
import os

for number in range(3, 256):
    try:
        print(number, os.pread(number, 1 << 16, 0))
    except OSError:
        pass
