"""Leads the scratch folder outside, by symbolic and hard links, and reads and writes through them."""
import os
import sys

secret, folder = sys.argv[1:3]
attempts = [
    lambda: os.symlink(folder, "out"),
    lambda: open("out/new", "w").write("x"),
    lambda: os.symlink(secret, "soft"),
    lambda: print(open("soft").read()),
    lambda: open("soft", "a").write("x"),
    lambda: os.link(secret, "hard"),
    lambda: print(open("hard").read()),
    lambda: os.rename("soft", f"{folder}/soft"),
    lambda: os.symlink("/", "root"),
    lambda: print(open("root" + secret).read()),
]
for attempt in attempts:
    try:
        attempt()
    except OSError as error:
        print(error.strerror)
