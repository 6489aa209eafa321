"""Writes gigabytes of output to both streams."""
import sys

for _ in range(1 << 14):
    print("x" * 65535)
    print("y" * 65535, file=sys.stderr)
