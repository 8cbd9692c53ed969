"""Four locks, each done wrong or right: what does an expiry, a lost reply, a dead or a standing client do to them?

    redouble explore --chaos expiry,pause   -- python3 lock_chaos.py write wrong
    redouble explore --chaos lost-reply --client 'worker-*' -- python3 lock_chaos.py acquire wrong
    redouble explore --chaos crash          -- python3 lock_chaos.py deadline wrong
    redouble explore --chaos expiry --audit -- python3 lock_chaos.py release wrong

Needs no client library; the server is at REDIS_PORT.
"""

import os
import socket
import sys
import threading

RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
WRITE = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('SET', KEYS[2], ARGV[2]) return 1 end return 0"


class Client:
    def __init__(self, name):
        self.name = name
        self.connect()

    def connect(self):
        self.socket = socket.create_connection((os.environ["REDIS_HOST"], int(os.environ["REDIS_PORT"])))
        self.replies = self.socket.makefile("rb")
        self.ask("CLIENT", "SETNAME", self.name)

    def ask(self, *words):
        words = [str(word).encode() for word in words]
        parts = [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(parts))
        line = self.replies.readline().rstrip()
        if not line:
            raise ConnectionError("the server has closed the connection")
        if line[:1] == b":":
            return int(line[1:])
        if line[:1] != b"$":
            return line[1:].decode()
        if line == b"$-1":
            return None
        return self.replies.read(int(line[1:]) + 2)[:-2].decode()

    def release(self):
        return self.ask("EVAL", RELEASE, 1, "lock", self.name)

    def close(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def sell_one(client, is_right):
    """Asks until the lock is free, and writes: without a look at the lock, or only if it is still its own."""
    while client.ask("SET", "lock", client.name, "NX", "PX", 30000) is None:
        pass
    left = int(client.ask("GET", "stock")) - 1
    if is_right:
        sold.append(client.ask("EVAL", WRITE, 2, "lock", "stock", client.name, left))
    else:
        client.ask("SET", "stock", left)
        sold.append(1)
    client.release()


def acquire(client, is_right):
    """What becomes of the lock when nobody knows whether it was taken?"""
    try:
        taken = client.ask("SET", "lock", client.name, "NX")
    except ConnectionError:
        client.connect()
        taken = is_right
    if taken:
        try:
            client.release()
        except ConnectionError:
            client.connect()
            client.release()


def set_deadline(client, is_right):
    """A lock that gets its deadline at once, or a moment later."""
    if is_right:
        taken = client.ask("SET", "lock", client.name, "NX", "EX", 30)
    else:
        taken = client.ask("SETNX", "lock", client.name)
        if taken:
            client.ask("EXPIRE", "lock", 30)
    if taken:
        client.ask("INCR", "work")
        client.release()


def release(client, is_right):
    """Compares and deletes in one step or in two."""
    if client.ask("SET", "lock", client.name, "NX", "PX", 30000):
        if is_right:
            client.release()
        elif client.ask("GET", "lock") == client.name:
            client.ask("DEL", "lock")


def work(lock, name, is_right):
    client = Client(name)
    try:
        lock(client, is_right)
    except ConnectionError:
        pass  # It has died.
    client.close()


LOCKS = {"write": sell_one, "acquire": acquire, "deadline": set_deadline, "release": release}
lock, is_right = LOCKS[sys.argv[1]], sys.argv[2] == "right"
sold = []
main = Client("main")
main.ask("SET", "stock", 10)
workers = [threading.Thread(target=work, args=(lock, f"worker-{n}", is_right)) for n in (1, 2)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
if int(main.ask("GET", "stock")) != 10 - sum(sold):
    sys.exit(f"{sum(sold)} were sold, and the stock is {main.ask('GET', 'stock')}")
if main.ask("PTTL", "lock") == -1:
    sys.exit("the lock is held for ever")
main.close()
