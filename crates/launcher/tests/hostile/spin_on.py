"""Computes for a minute, and ignores the signal that its time is used up."""
import signal
import time

signal.signal(signal.SIGXCPU, signal.SIG_IGN)
end = time.monotonic() + 60
while time.monotonic() < end:
    pass
