"""Writes link_order.ld, which puts the functions together that an empty server runs, so that it maps few pages of its file.

    make link-order        # builds the binary with symbols, and runs this with it

It runs the binary in qemu's user mode, which logs each piece of code the first time that it is translated: until the first client
has had its PONG and is gone, and while the commands of locks are played. Needs qemu-x86_64, nm, cc and libc.a.
"""

import re
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

OUT = Path(__file__).with_name("link_order.ld")

HEAD = """\
/* Which functions stand together at the start of the code. Made by `make link-order`; see docs/decisions/0033-link-order.md.
   A pattern that no longer matches anything does no harm but for a page or two of memory. */
"""

# What is played behind that: the commands of locks, and how client libraries begin.
RELEASE = 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end'
SESSION = [
    ["HELLO", "3"],
    ["CLIENT", "SETINFO", "LIB-NAME", "x"],
    ["SETNX", "lock.foo", "1700000060"],
    ["SETNX", "lock.foo", "1700000060"],
    ["GET", "lock.foo"],
    ["GETSET", "lock.foo", "1700000120"],
    ["DEL", "lock.foo"],
    ["SET", "lock.foo", "token", "NX", "PX", "30000"],
    ["PTTL", "lock.foo"],
    ["PEXPIRE", "lock.foo", "30000"],
    ["EVAL", RELEASE, "1", "lock.foo", "token"],
    ["MULTI"],
    ["SET", "key", "value"],
    ["INCR", "counter"],
    ["EXEC"],
    ["FLUSHALL"],
]
# The same many times in one write, as a load is: tables and deadlines grow.
PIPELINED = [
    ["SET", "key:%d", "value"],
    ["SET", "lock:%d", "token", "NX", "PX", "30000"],
    ["GET", "key:%d"],
    ["SETNX", "lock:%d", "1700000060"],
    ["DEL", "lock:%d"],
]
AT_ONCE, TIMES = 500, 16


def encode(words):
    return f"*{len(words)}\r\n".encode() + b"".join(f"${len(word)}\r\n{word}\r\n".encode() for word in words)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ping(client):
    client.settimeout(60)
    client.sendall(encode(["PING"]))
    if client.recv(64) != b"+PONG\r\n":
        sys.exit("The server does not answer PING.")


def logged(log):
    """The names of what was translated so far, in their order."""
    names = (line[4:].strip() for line in log.read_text(errors="replace").splitlines() if line.startswith("IN:"))
    return list(dict.fromkeys(name for name in names if name))


def trace(binary):
    """The functions that run until the first client is gone, and those that only the session runs."""
    with tempfile.TemporaryDirectory() as folder:
        log, port = Path(folder, "log"), free_port()
        words = ["qemu-x86_64", "-cpu", "max", "-d", "in_asm", "-D", log, binary, "--port", str(port), "--save", ""]
        server = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        try:
            while True:
                try:
                    client = socket.create_connection(("127.0.0.1", port))
                    break
                except ConnectionRefusedError:
                    if server.poll() is not None:
                        sys.exit("The server has ended.")
            ping(client)
            client.close()
            client = socket.create_connection(("127.0.0.1", port))
            # What the server does ten times a second is part of it, too.
            for _ in range(4):
                time.sleep(0.2)
                ping(client)
            start = logged(log)
            for command in SESSION:
                client.sendall(encode(command))
                client.recv(65536)
            for command in PIPELINED:
                for first in range(0, AT_ONCE * TIMES, AT_ONCE):
                    numbered = ([word.replace("%d", str(number)) for word in command] for number in range(first, first + AT_ONCE))
                    client.sendall(b"".join(encode(words) for words in numbered) + encode(["PING"]))
                    received = b""
                    while not received.endswith(b"+PONG\r\n"):
                        received += client.recv(1 << 20)
            return start, [name for name in logged(log) if name not in set(start)]
        finally:
            server.kill()
            server.wait()


def pattern(name):
    """The name without what changes with each build: the hash of a function, and that of a crate."""
    if plain := re.match(r"(_ZN.*17h)[0-9a-f]{16}E", name):
        return plain[1] + "*"
    if name.startswith("_R"):
        # A local function may have a number, which changes as well.
        return re.sub(r"\.\d+$", ".*", re.sub(r"Cs[0-9A-Za-z]+_", "Cs*_", name))
    return name


def sizes(binary):
    """How many bytes of code each pattern matches, and each name."""
    by_pattern, by_name = Counter(), Counter()
    listing = subprocess.run(["nm", "-S", binary], capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        match line.split():
            case [_, size, kind, name] if kind in "tTwW":
                by_pattern[pattern(name)] += int(size, 16)
                by_name[name] += int(size, 16)
    return by_pattern, by_name


def members():
    """Which member of glibc's archive has which function."""
    archive = subprocess.run(["cc", "-print-file-name=libc.a"], capture_output=True, text=True, check=True).stdout.strip()
    listing = subprocess.run(["nm", "-A", archive], capture_output=True, text=True, check=False).stdout
    found = {}
    for line in listing.splitlines():
        place, *_, kind, name = line.split()
        if kind in "tTwWi":
            found.setdefault(name, place.split(":")[1])
    return found


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: link_order.py BINARY")
    binary = sys.argv[1]
    by_pattern, by_name = sizes(binary)
    if not by_name:
        sys.exit(f"{binary} has no symbols: `make link-order` builds one that has.")
    of_libc, written = members(), set()

    def lines(names):
        run = Counter()
        for name in names:
            run[pattern(name)] += by_name[name]
        # What matches many functions that do not run, as those of collections of any type do, stands behind the others.
        for match in sorted(run, key=lambda match: (by_pattern[match] - run[match], match)):
            if match.startswith(("_ZN", "_R")):
                yield f"    *(.text.*{match})"
            elif match in of_libc:
                yield f"    *libc.a:{of_libc[match]}(.text .text.*)"

    out = [HEAD + "SECTIONS\n{\n  .text.first :\n  {"]
    for title, names in zip(("until the first client is gone", "the commands of locks"), trace(binary)):
        fresh = [line for line in dict.fromkeys(lines(names)) if line not in written]
        written.update(fresh)
        out += [f"    /* {title} */", *fresh]
    out.append("  }\n}\nINSERT BEFORE .text;\n")
    OUT.write_text("\n".join(out))
    print(f"{OUT.name}: {len(written)} patterns")


main()
