"""Lets the system send a signal to another process: a pipe that becomes readable tells its owner."""
import fcntl
import os
import signal
import sys
import time

victim = int(sys.argv[3])
reader, writer = os.pipe()
try:
    fcntl.fcntl(reader, fcntl.F_SETOWN, victim)
    fcntl.fcntl(reader, fcntl.F_SETSIG, signal.SIGTERM)
    fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    os.write(writer, b"x")
    time.sleep(0.1)
    print("sent")
except OSError as error:
    print(error)
