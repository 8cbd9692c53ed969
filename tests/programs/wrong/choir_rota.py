"""Choir: singers put their names on the list of a concert, over sockets of their own.

Wrong: the list is read, sorted in the client, and replaced by DEL and RPUSH in a transaction. Without WATCH the
transaction does not notice that the list has changed since the read: a singer is off the list.
"""
import os
import socket
import urllib.parse
from multiprocessing import Event, Process

ROTA = "choir:rota:advent"


class Line:
    """As much of the protocol as the choir needs."""

    def __init__(self):
        address = urllib.parse.urlsplit(os.environ["REDIS_URL"])
        self.file = socket.create_connection((address.hostname, address.port or 6379), timeout=15).makefile("rwb")

    def __call__(self, *words):
        words = [str(word).encode() for word in words]
        self.file.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        self.file.flush()
        return self.reply()

    def reply(self):
        head = self.file.readline()
        kind, rest = head[:1], head[1:-2]
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2].decode()
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        return int(rest) if kind == b":" else rest.decode()


def sing(name, has_read, may_write):
    redis = Line()
    rota = sorted([*redis("LRANGE", ROTA, 0, -1), name])
    has_read.set()
    may_write.wait(15)
    redis("MULTI")  # and no WATCH before the read !
    redis("DEL", ROTA)
    redis("RPUSH", ROTA, *rota)
    redis("EXEC")


def singer(name):
    has_read, may_write = Event(), Event()
    process = Process(target=sing, args=(name, has_read, may_write))
    process.start()
    has_read.wait(15)
    return process, may_write


if __name__ == "__main__":
    control = Line()
    control("RPUSH", ROTA, "Berit", "Otto")
    new = [singer("Anselm"), singer("Chiara")]
    for process, may_write in new:
        may_write.set()
        process.join()
    rota = control("LRANGE", ROTA, 0, -1)
    for name in {"Anselm", "Chiara"} - set(rota):
        print(f"damage: {name} is off the list: {rota}")
