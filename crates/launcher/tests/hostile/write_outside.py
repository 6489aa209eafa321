"""Writes, changes and removes files outside of the scratch folder."""
import os
import sys

secret, folder = sys.argv[1:3]
attempts = [
    lambda: open(f"{folder}/new", "w").write("x"),
    lambda: open(secret, "a").write("x"),
    lambda: os.truncate(secret, 0),
    lambda: os.close(os.open(secret, os.O_RDONLY | os.O_TRUNC)),
    lambda: os.unlink(secret),
    lambda: os.rename(secret, f"{folder}/moved"),
    lambda: os.link(secret, f"{folder}/linked"),
    lambda: os.mkdir(f"{folder}/folder"),
    lambda: os.mkfifo(f"{folder}/pipe"),
    lambda: open("../new", "w").write("x"),
]
for attempt in attempts:
    try:
        attempt()
        print("wrote")
    except OSError as error:
        print(error.strerror)
