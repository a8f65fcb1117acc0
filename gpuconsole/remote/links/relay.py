"""Bytes between a socket on a host and the command that runs this there.

For hosts with an sshd that forwards no sockets: this file is sent as the text of a command, so it
is plain Python 3.6 and imports nothing of gpuconsole. Its one argument is the path of the socket.
"""

import os
import socket
import sys
import threading

CHUNK = 65536


def main(path: str) -> None:
    """Pass on bytes both ways until either end closes."""
    link = socket.socket(socket.AF_UNIX)
    link.connect(path)

    def send() -> None:
        while True:
            data = os.read(0, CHUNK)
            if not data:
                break
            link.sendall(data)
        link.shutdown(socket.SHUT_WR)

    threading.Thread(target=send, daemon=True).start()
    while True:
        data = link.recv(CHUNK)
        if not data:
            break
        while data:
            data = data[os.write(1, data) :]


if __name__ == "__main__":
    main(sys.argv[1])
