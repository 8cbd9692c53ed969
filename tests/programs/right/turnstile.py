"""A turnstile's counter, changed by controllers that speak the protocol themselves, over one socket each.

A controller takes the lock with a random token and an expiry, reads, writes, and releases by a script. Who is refused asks again.
One controller dies with the lock; the others wait until its lease is over.
Keys: lock turnstile:<number>:busy, data turnstile:<number>:passed.
"""
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.parse

BUSY, PASSED = "turnstile:1:busy", "turnstile:1:passed"
RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class Wire:
    def __init__(self):
        parts = urllib.parse.urlsplit(os.environ["REDIS_URL"])
        self.socket = socket.create_connection((parts.hostname, parts.port))
        self.lines = self.socket.makefile("rb")

    def __call__(self, *words):
        words = [str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        line = self.lines.readline().strip()
        if line[:1] == b"$":
            return None if line == b"$-1" else self.lines.read(int(line[1:]) + 2)[:-2].decode()
        return int(line[1:]) if line[:1] == b":" else line[1:].decode()


def controller(people, lease):
    redis, token = Wire(), secrets.token_urlsafe(18)
    for _ in range(int(people)):
        while redis("SET", BUSY, token, "NX", "PX", lease) != "OK":
            time.sleep(0.02)
        if int(lease) < 1000:
            os._exit(9)  # it is switched off
        passed = int(redis("GET", PASSED) or 0)
        redis("SET", PASSED, passed + 1)
        assert redis("EVAL", RELEASE, 1, BUSY, token) == 1


def main():
    start = lambda *words: subprocess.Popen([sys.executable, __file__, *map(str, words)])
    assert start(1, 300).wait() == 9
    controllers = [start(6, 60000) for _ in range(3)]
    assert [each.wait() for each in controllers] == [0, 0, 0]
    passed = int(Wire()("GET", PASSED))
    assert passed == 18, passed
    print("ok: 18 people passed three controllers and are all counted, although a fourth one died with the lock")


if __name__ == "__main__":
    controller(*sys.argv[1:]) if sys.argv[1:] else main()
