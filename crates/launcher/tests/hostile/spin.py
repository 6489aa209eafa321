"""Computes for a minute."""
import time

end = time.monotonic() + 60
while time.monotonic() < end:
    pass
