"""Writes one large file, with the action that a signal has by default."""
import signal

signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
with open("file", "wb", buffering=0) as file:
    for _ in range(64):
        file.write(b"x" * (1 << 20))
print("wrote")
