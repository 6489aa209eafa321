"""Sends signals to its parent and to another process of the same user."""
import os
import signal
import sys

victim = int(sys.argv[3])
for pid in (victim, os.getppid()):
    attempts = [
        lambda: os.kill(pid, signal.SIGTERM),
        lambda: signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGTERM),
        lambda: os.killpg(os.getpgid(pid), signal.SIGTERM),
    ]
    # 0 and 1 are whole groups of processes.
    for attempt in attempts if pid > 1 else []:
        try:
            attempt()
            print("sent")
        except (OSError, AttributeError) as error:
            print(error)
