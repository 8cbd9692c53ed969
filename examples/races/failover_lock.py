"""A lock that a failover loses: two workers take it with SET NX PX, work, and release it with a script.

    redouble explore --replicas 1 --failovers 1 --client 'worker-*' -- python3 failover_lock.py
    redouble explore --replicas 1 --failovers 1 --client 'worker-*' -- python3 failover_lock.py wait

With `wait`, a worker trusts the lock only when a replica has it. That holds with one replica; with two, the other one may become
the master. Needs no client library; the server is at REDIS_PORT.
"""

import os
import socket
import sys
import threading

RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class Client:
    def __init__(self, name):
        self.socket = socket.create_connection((os.environ["REDIS_HOST"], int(os.environ["REDIS_PORT"])))
        self.replies = self.socket.makefile("rb")
        self.name = name
        self.ask("CLIENT", "SETNAME", name)

    def ask(self, *words):
        words = [str(word).encode() for word in words]
        parts = [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(parts))
        line = self.replies.readline().rstrip()
        if not line or line[:1] == b"-":
            raise ConnectionError(line.decode() or "the server has closed the connection")
        if line[:1] == b":":
            return int(line[1:])
        if line[:1] == b"+":
            return line[1:].decode()
        return None if line == b"$-1" else self.replies.read(int(line[1:]) + 2)[:-2].decode()

    def close(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def work(name, waits):
    client = Client(name)
    try:
        if client.ask("SET", "lock", name, "NX", "PX", 30000) == "OK":
            if not waits or client.ask("WAIT", 1, 1000) >= 1:
                holders.add(name)
                if len(holders) > 1:
                    broken.append(sorted(holders))
                client.ask("INCR", "work")
                holders.discard(name)
            client.ask("EVAL", RELEASE, 1, "lock", name)
    except ConnectionError:
        holders.discard(name)
    client.close()


waits = sys.argv[1:] == ["wait"]
holders, broken = set(), []
workers = [threading.Thread(target=work, args=(f"worker-{n}", waits)) for n in (1, 2)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
if broken:
    sys.exit(f"the lock is held by {broken[0]}")
