"""Fills the disk with files, each as large as it may be."""
written = 0
try:
    for number in range(25):
        with open(f"file{number}", "wb", buffering=0) as file:
            for _ in range(16):
                written += file.write(b"x" * (1 << 20))
except OSError as error:
    print(error.strerror)
print(written >> 20)
