"""Python loads this before a suite. It redirects connections from the ports where suites look for Redis to the server
under test, and refuses those to other machines."""

import os
import socket

REDIS = (6379, 6390)
UNDER_TEST = int(os.environ["LOCKS_PORT"])


class RedirectedSocket(socket.socket):
    def connect(self, address):
        return super().connect(redirected(address))

    def connect_ex(self, address):
        return super().connect_ex(redirected(address))


def redirected(address):
    if not isinstance(address, tuple):
        return address
    if address[0] not in ("", "localhost", "::1") and not address[0].startswith("127."):
        raise ConnectionRefusedError(f"{address[0]} is another machine")
    if address[1] in REDIS:
        return (address[0], UNDER_TEST, *address[2:])
    return address


socket.socket = RedirectedSocket
