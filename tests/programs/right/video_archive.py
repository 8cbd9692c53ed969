"""A video is archived by a worker that keeps its lock alive from a thread, with the Lock of redis-py.

The heartbeat is stalled until the lock is over and another worker has taken it. extend() then raises, the worker hears of
it and gives up. The result is stored only in a transaction that watches the lock and has seen its own token in it.
Keys: lock archive:<video>:lock, data archive:<video>.
"""
import multiprocessing
import os
import threading
import time

import redis
from redis.exceptions import LockError, WatchError

LOCK, RESULT = "archive:v3:lock", "archive:v3"


def store(client, lock, text):
    """Stores the result if the lock is still ours, and says whether it was."""
    with client.pipeline() as pipe:
        try:
            pipe.watch(LOCK)
            if pipe.get(LOCK) != lock.local.token:
                return False
            before = pipe.get(RESULT) or b""
            pipe.multi()
            pipe.set(RESULT, before + text.encode())
            pipe.execute()
            return True
        except WatchError:
            return False


def heartbeat(lock, stalled, ends, lost):
    stalled.wait(5)
    while not ends.wait(0.05):
        try:
            lock.extend(0.8, replace_ttl=True)
        except LockError:
            lost.set()
            return


def archive(name, holds, stalled, answers):
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    lock = client.lock(LOCK, timeout=0.8, sleep=0.02, thread_local=False)
    lock.acquire()
    ends, lost = threading.Event(), threading.Event()
    beat = threading.Thread(target=heartbeat, args=(lock, stalled, ends, lost))
    beat.start()
    holds.set()
    stalled.wait(5)
    time.sleep(0.15)  # compresses
    stored = not lost.is_set() and store(client, lock, name)
    ends.set()
    beat.join()
    if not lost.is_set():
        lock.release()
    answers.put((name, stored))


def main():
    answers = multiprocessing.Queue()
    first_holds, second_holds, never_stalled = (multiprocessing.Event() for _ in range(3))
    never_stalled.set()
    first = multiprocessing.Process(target=archive, args=("first", first_holds, second_holds, answers))
    second = multiprocessing.Process(target=archive, args=("second", second_holds, never_stalled, answers))
    first.start()
    first_holds.wait(5)
    second.start()
    stored = dict(answers.get(timeout=5) for _ in range(2))
    first.join()
    second.join()
    result = redis.Redis.from_url(os.environ["REDIS_URL"]).get(RESULT)
    assert stored == {"first": False, "second": True} and result == b"second", (stored, result)
    print("ok: the worker that lost its lock gave up, the other one stored its result")


if __name__ == "__main__":
    main()
