"""Python loads this before a suite. It redirects connections from port 6379 to the server under test."""

import os
import socket

REDIS = 6379
UNDER_TEST = int(os.environ["LOCKS_PORT"])


class RedirectedSocket(socket.socket):
    def connect(self, address):
        return super().connect(redirected(address))

    def connect_ex(self, address):
        return super().connect_ex(redirected(address))


def redirected(address):
    if isinstance(address, tuple) and address[1] == REDIS:
        return (address[0], UNDER_TEST, *address[2:])
    return address


socket.socket = RedirectedSocket
