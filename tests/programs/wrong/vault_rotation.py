"""The key of a vault is rotated under a lock on three servers, by a client that speaks the protocol itself.

"Half of the servers" is counted in whole numbers: 3 // 2 is 1, and one server is enough. One program has the first server, the other
one the two others, and both rotate.
Keys: lock vault:rotation on each server, counted in vault:rotating on the first. The lines marked ! are the evidence.
"""
import os
import secrets
import socket
import subprocess
import sys
import urllib.parse

KEY = "vault:rotation"


class Wire:
    def __init__(self, url):
        parts = urllib.parse.urlsplit(url)
        self.socket = socket.create_connection((parts.hostname, parts.port))
        self.lines = self.socket.makefile("rb")

    def __call__(self, *words):
        words = [str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        line = self.lines.readline().strip()
        if line[:1] == b"$":
            return None if line == b"$-1" else self.lines.read(int(line[1:]) + 2)[:-2].decode()
        return int(line[1:]) if line[:1] == b":" else line[1:].decode()


def rotate(order):
    servers = [Wire(url) for url in os.environ["REDIS_URLS"].split(",")]
    token, taken = secrets.token_hex(16), 0
    for number in map(int, order):
        if servers[number]("SET", KEY, token, "NX", "PX", 30000) == "OK":  # !
            taken += 1
        print(taken, flush=True)
        sys.stdin.readline()
    if taken >= len(servers) // 2:
        print("inside", servers[0]("INCR", "vault:rotating"), flush=True)  # !
        sys.stdin.readline()
        servers[0]("DECR", "vault:rotating")
    script = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
    for server in servers:
        server("EVAL", script, 1, KEY, token)


class Program:
    def __init__(self, order):
        command = [sys.executable, __file__, order]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.said = self.process.stdout.readline()

    def step(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self.said = self.process.stdout.readline()


def main():
    east, west = Program("012"), Program("210")
    west.step()
    for _ in range(3):
        east.step()
    for _ in range(2):
        west.step()
    if "inside 2" in (east.said.strip(), west.said.strip()):
        print("damage: two programs rotate the key of the vault at once")
    for program in (east, west):
        program.process.communicate("go\n")


if __name__ == "__main__":
    rotate(*sys.argv[1:]) if sys.argv[1:] else main()
