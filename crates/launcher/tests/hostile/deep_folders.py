"""Leaves folders that are hard to remove: very deep ones, and ones without rights."""
import os

os.mkdir("closed")
os.mkdir("closed/inside")
os.mkdir("shut", 0)
for _ in range(2000):
    try:
        os.mkdir("d")
        os.chdir("d")
    except OSError:
        break
print("made")
