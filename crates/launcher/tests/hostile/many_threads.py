"""Starts threads, which count as processes."""
import threading
import time

started = 0
try:
    for _ in range(200):
        threading.Thread(target=time.sleep, args=(1,), daemon=True).start()
        started += 1
except RuntimeError:
    pass
print(started)
