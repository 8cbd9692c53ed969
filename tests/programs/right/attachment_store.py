"""Mail servers store attachments under the hash of their content, over sockets of their own. Several get the same file at once.

A server asks EXISTS and then calls SET, and another one may do the same in between: both write the same bytes, for the key is their
hash. Nothing is ever changed under a key. Which mail refers to it is a member of a set.
"""
import hashlib
import multiprocessing
import os
import socket
import urllib.parse

FILES = [b"logo", b"terms and conditions", b"price list", b"map of the site"]


class Link:
    def __init__(self):
        url = urllib.parse.urlsplit(os.environ["REDIS_URL"])
        self.stream = socket.create_connection((url.hostname, url.port or 6379)).makefile("rwb")

    def reply(self):
        head = self.stream.readline().strip()
        if head[:1] == b"*":
            return [self.reply() for _ in range(int(head[1:]))]
        if head[:1] == b"$":
            return None if head == b"$-1" else self.stream.read(int(head[1:]) + 2)[:-2]
        if head[:1] == b"-":
            raise RuntimeError(head.decode())
        return int(head[1:]) if head[:1] == b":" else head[1:]

    def __call__(self, *words):
        self.stream.write(b"*%d\r\n" % len(words))
        for word in (word if isinstance(word, bytes) else word.encode() for word in words):
            self.stream.write(b"$%d\r\n%s\r\n" % (len(word), word))
        self.stream.flush()
        return self.reply()


def server(name, together):
    redis = Link()
    for number, content in enumerate(FILES):
        key = "attachment:" + hashlib.sha256(content).hexdigest()
        there = redis("EXISTS", key)
        together.wait(15)  # all have asked
        if not there:
            redis("SET", key, content)
        redis("SADD", f"{key}:mails", f"{name}/{number}")


def main():
    spawn = multiprocessing.get_context("spawn")
    names = ["mx-1", "mx-2", "mx-3"]
    together = spawn.Barrier(len(names))
    servers = [spawn.Process(target=server, args=(name, together)) for name in names]
    for process in servers:
        process.start()
    for process in servers:
        process.join(18)
        assert process.exitcode == 0
    redis, bad = Link(), []
    for number, content in enumerate(FILES):
        key = "attachment:" + hashlib.sha256(content).hexdigest()
        mails = {mail.decode() for mail in redis("SMEMBERS", f"{key}:mails")}
        if redis("GET", key) != content or mails != {f"{name}/{number}" for name in names}:
            bad.append(key)
    print(f"damage: {len(bad)} attachments are wrong" if bad else f"ok: {len(FILES)} attachments, each of {len(names)} mails")


if __name__ == "__main__":
    main()
