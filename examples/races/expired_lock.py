"""Two workers take over an expired lock, as documented for SETNX: with GETSET, or wrongly with DEL and SETNX.

Fails if both of them believe to hold the lock. Speaks to the server at REDIS_PORT without any library.
"""

import os
import socket
import sys
import threading

NOW = 1000
EXPIRED = 900


class Client:
    def __init__(self, name=None):
        self.socket = socket.create_connection((os.environ["REDIS_HOST"], int(os.environ["REDIS_PORT"])))
        self.replies = self.socket.makefile("rb")
        if name:
            self.ask("CLIENT", "SETNAME", name)

    def ask(self, *words):
        words = [str(word).encode() for word in words]
        parts = [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(parts))
        line = self.replies.readline().rstrip()
        if line[:1] == b":":
            return int(line[1:])
        if line[:1] != b"$":
            return line[1:].decode()
        if line == b"$-1":
            return None
        return self.replies.read(int(line[1:]) + 2)[:-2].decode()


def is_over(deadline):
    return deadline is None or int(deadline) <= NOW


def take_over(name, mine, how, holders):
    client = Client(name)
    if client.ask("SETNX", "lock.foo", mine) == 1:
        holders.append(name)
    elif is_over(client.ask("GET", "lock.foo")):
        if how == "getset":
            if is_over(client.ask("GETSET", "lock.foo", mine)):
                holders.append(name)
        else:
            client.ask("DEL", "lock.foo")
            if client.ask("SETNX", "lock.foo", mine) == 1:
                holders.append(name)
    client.socket.shutdown(socket.SHUT_RDWR)


main = Client("main")
main.ask("SET", "lock.foo", EXPIRED)
main.socket.shutdown(socket.SHUT_RDWR)
holders = []
workers = [
    threading.Thread(target=take_over, args=(f"worker-{n}", 2000 + n, sys.argv[1], holders)) for n in (1, 2)
]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
if len(holders) != 1:
    sys.exit(f"the lock is held by {sorted(holders)}")
