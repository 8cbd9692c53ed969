"""Controllers of a heating plant step the setpoint of a boiler. They speak the protocol of Redis over sockets of their own.

Wrong: they use SETNX, GET and GETSET as documented for locks with a time in the value, but do not look at what GETSET
replies. After a controller has died, two others both find its time over, both call GETSET, and both think they have won.
"""
import multiprocessing
import os
import socket
import time
import urllib.parse

LOCK, SETPOINT = "lock.boiler.2", "boiler:2:setpoint"


class Link:
    def __init__(self):
        url = urllib.parse.urlsplit(os.environ["REDIS_URL"])
        self.stream = socket.create_connection((url.hostname, url.port or 6379)).makefile("rwb")

    def __call__(self, *words):
        self.stream.write(b"*%d\r\n" % len(words))
        for word in map(lambda word: str(word).encode(), words):
            self.stream.write(b"$%d\r\n%s\r\n" % (len(word), word))
        self.stream.flush()
        head = self.stream.readline().strip()
        if head[:1] == b"$":
            if head == b"$-1":
                return None
            return self.stream.read(int(head[1:]) + 2)[:-2].decode()
        if head[:1] == b"-":
            raise RuntimeError(head.decode())
        return int(head[1:]) if head[:1] == b":" else head[1:].decode()


def dying():
    assert Link()("SETNX", LOCK, time.time() + 0.3) == 1
    os._exit(0)


def controller(step, life, seen_over, may_take, has_read, may_write, written):
    redis, end = Link(), time.time() + life
    if not redis("SETNX", LOCK, end):
        while float(redis("GET", LOCK)) > time.time():
            time.sleep(0.02)
        seen_over.set()
        assert may_take.wait(15)
        end = time.time() + life
        redis("GETSET", LOCK, end)  # replies who was first, and nobody listens!
    setpoint = int(redis("GET", SETPOINT))
    has_read.set()
    assert may_write.wait(15)
    redis("SET", SETPOINT, setpoint + step)  # one of the steps is lost!
    if time.time() < end:
        redis("DEL", LOCK)
    written.set()


def main():
    redis = Link()
    redis("SET", SETPOINT, 60)
    spawn = multiprocessing.get_context("spawn")
    first_over, second_over, first_read, second_read, first_written, second_written = (spawn.Event() for _ in range(6))
    victim = spawn.Process(target=dying)
    victim.start()
    victim.join(15)
    controllers = [
        spawn.Process(target=controller, args=(5, 90, first_over, second_over, first_read, second_read, first_written)),
        spawn.Process(target=controller, args=(2, 80, second_over, first_read, second_read, first_written, second_written)),
    ]
    for process in controllers:
        process.start()
    for process in controllers:
        process.join(15)
        assert process.exitcode == 0
    setpoint = int(redis("GET", SETPOINT))
    print(f"damage: steps of 5 and 2 from 60 led to {setpoint}" if setpoint != 67 else "ok: both steps were made")


if __name__ == "__main__":
    main()
