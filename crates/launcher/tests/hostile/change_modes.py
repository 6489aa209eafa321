"""Changes what can be changed of a file without opening it: rights, owner, times, attributes."""
import os
import sys

for path in sys.argv[1:3]:
    attempts = [
        lambda: os.chmod(path, 0o666 if path == sys.argv[1] else 0o700),
        lambda: os.chown(path, os.getuid(), os.getgid()),
        lambda: os.utime(path, (0, 0)),
        lambda: os.setxattr(path, "user.hostile", b"x"),
    ]
    for attempt in attempts:
        try:
            attempt()
            print("changed", path)
        except OSError as error:
            print(error.strerror)
