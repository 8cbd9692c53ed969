"""Telegraph office: clerks number the telegrams that they send, one clerk at the key at a time.

Right: the lock is SETNX without an expiry, the plain form of the documentation. It cannot be lost while somebody is
inside, so that the DEL at the end is always for the clerk's own hold; refused clerks only ask again. A clerk who
dies stops the office, and does no harm to the numbers.
"""
import os
import socket
import time
import urllib.parse
from multiprocessing import Barrier, Process

LOCK, SENT = "lock.relay", "relay:sent"


class Wire:
    def __init__(self):
        url = urllib.parse.urlsplit(os.environ["REDIS_URL"])
        self.socket = socket.create_connection((url.hostname, url.port or 6379), timeout=15)
        self.left = b""

    def line(self):
        while b"\r\n" not in self.left:
            self.left += self.socket.recv(4096)
        line, self.left = self.left.split(b"\r\n", 1)
        return line.decode()

    def ask(self, *words):
        """An inline command: the words have no spaces."""
        self.socket.sendall(" ".join(map(str, words)).encode() + b"\r\n")
        reply = self.line()
        if reply[0] == "-":
            raise RuntimeError(reply)
        if reply == "$-1":
            return None
        return self.line() if reply[0] == "$" else reply[1:]


def clerk(name, together):
    wire = Wire()
    together.wait(15)
    for _ in range(5):
        while wire.ask("SETNX", LOCK, name) != "1":
            time.sleep(0.01)
        sent = wire.ask("GET", SENT)
        number = int(sent.rsplit(":", 1)[-1]) + 1
        wire.ask("SET", SENT, f"{sent}/{name}:{number}")
        wire.ask("DEL", LOCK)


if __name__ == "__main__":
    wire = Wire()
    wire.ask("SET", SENT, "start:0")
    together = Barrier(3)
    clerks = [Process(target=clerk, args=(name, together)) for name in ("ada", "bela", "cyrus")]
    for process in clerks:
        process.start()
    for process in clerks:
        process.join()
    numbers = [int(entry.split(":")[1]) for entry in wire.ask("GET", SENT).split("/")]
    assert numbers == list(range(16)), numbers
    print(f"ok: telegrams 1 to {numbers[-1]}, each number once")
