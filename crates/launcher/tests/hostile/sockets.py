"""Calls a server on this machine, and one elsewhere."""
import socket
import sys

port = int(sys.argv[4])
attempts = [
    (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port)),
    (socket.AF_INET6, socket.SOCK_STREAM, ("::ffff:127.0.0.1", port)),
    (socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.1", 53)),
    (socket.AF_UNIX, socket.SOCK_STREAM, "\0hostile"),
    (socket.AF_UNIX, socket.SOCK_STREAM, "/run/docker.sock"),
]
for family, kind, address in attempts:
    try:
        with socket.socket(family, kind) as client:
            client.settimeout(1)
            client.connect(address)
            client.sendall(b"x") if kind == socket.SOCK_STREAM else None
            print("connected", address)
    except OSError as error:
        print(error)
# A pair leads nowhere else, so it is allowed: event loops need it.
socket.socketpair()
print("has a pair")
