"""Bytes between a port, or a unix socket, of a container and the console.

Its one argument is the number of the port or the path of the socket. Its input comes in frames,
four bytes of length before each: one of length 0 means that nothing more comes, and an end of the
input that the console is gone. Its output is `CONNECTED` and then what the far end sends; or
`REFUSED` and why there is no connection.
"""

import os
import socket
import sys
import threading

CHUNK = 65536
CONNECTED, REFUSED = b"\0", b"\1"
HOME = ("127.0.0.1", "::1")
"""Where programs listen that are asked to listen on `localhost`; those that listen everywhere are
reached there too."""


def connected(target: str) -> socket.socket:
    """Return a connection to a port, tried at each address, or to a unix socket. OSError for
    none."""
    if not target.isdigit():
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(target)
        return connection
    try:
        return socket.create_connection((HOME[0], int(target)))
    except OSError as refused:
        try:
            return socket.create_connection((HOME[1], int(target)))
        except OSError:
            raise refused from None


def read(size: int) -> bytes:
    """Return so many bytes of the input, fewer at its end."""
    data = b""
    while len(data) < size:
        piece = os.read(0, min(CHUNK, size - len(data)))
        if not piece:
            break
        data += piece
    return data


def send(link: socket.socket) -> None:
    """Pass on what the console says; with the console, everything ends."""
    while True:
        head = read(4)
        if len(head) < 4:
            os._exit(0)
        left = int.from_bytes(head, "big")
        if not left:
            link.shutdown(socket.SHUT_WR)
        while left:
            data = read(min(CHUNK, left))
            if not data:
                os._exit(0)
            left -= len(data)
            try:
                link.sendall(data)
            except OSError:
                return


def write(data: bytes) -> None:
    """Give all of it."""
    while data:
        data = data[os.write(1, data) :]


def main(target: str) -> None:
    """Pass on bytes both ways until the far end closes or the console is gone."""
    try:
        link = connected(target)
    except OSError as error:
        write(REFUSED + (error.strerror or str(error)).encode())
        return
    write(CONNECTED)
    threading.Thread(target=send, args=(link,), daemon=True).start()
    while True:
        try:
            data = link.recv(CHUNK)
        except OSError:
            return
        if not data:
            return
        write(data)


if __name__ == "__main__":
    main(sys.argv[1])
