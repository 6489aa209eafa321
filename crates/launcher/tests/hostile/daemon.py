"""Leaves a process behind, in a session of its own and without streams."""
import os
import time

if os.fork() == 0:
    try:
        os.setsid()
    except OSError:
        pass
    if os.fork() == 0:
        for number in range(3):
            os.close(number)
        time.sleep(60)
    os._exit(0)
print("started")
