"""Cron hosts roll the bookings of an hour up into a total. A thread renews the lock over its own connection meanwhile.

Wrong: when the renewal is told that the lock is somebody else's, the thread writes that into the log and ends. Nobody tells the
worker, which goes on over the other connection of its process and stores a total from before the other host's.
"""
import multiprocessing
import os
import threading
import uuid

import redis

RENEW = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
LOCK, TOTAL = "rollup:books:17h:runner", "rollup:books:17h:total"


def connect():
    return redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


def suspended_host(has_read, other_done):
    worker, token = connect(), uuid.uuid4().hex
    assert worker.set(LOCK, token, nx=True, px=300)
    total = int(worker.get(TOTAL))
    has_read.set()
    assert other_done.wait(15)  # the host was suspended for longer than the lease

    log = []

    def renewer():
        if not connect().eval(RENEW, 1, LOCK, token, 60_000):
            log.append("lock lost")  # and that is all that happens!

    thread = threading.Thread(target=renewer)
    thread.start()
    thread.join()
    assert log == ["lock lost"]
    worker.set(TOTAL, total + 100)  # after the loss, over another connection!
    worker.eval(RELEASE, 1, LOCK, token)


def other_host(has_read, other_done):
    r, token = connect(), uuid.uuid4().hex
    assert has_read.wait(15)
    pause = threading.Event()
    while not r.set(LOCK, token, nx=True, px=60_000):
        pause.wait(0.02)
    r.set(TOTAL, int(r.get(TOTAL)) + 40)
    other_done.set()


def main():
    r = connect()
    r.set(TOTAL, 0)
    spawn = multiprocessing.get_context("spawn")
    has_read, other_done = spawn.Event(), spawn.Event()
    hosts = [spawn.Process(target=host, args=(has_read, other_done)) for host in (suspended_host, other_host)]
    for process in hosts:
        process.start()
    for process in hosts:
        process.join(15)
        assert process.exitcode == 0
    total = int(r.get(TOTAL))
    print(f"damage: 140 was booked, the total says {total}" if total != 140 else "ok: the total is 140")


if __name__ == "__main__":
    main()
