"""A job queue that keeps each job in a hash and the ids of the waiting ones in a list.

The producer creates the hash, the worker that has moved the id to its own list writes the result, and a job that is
done is removed. Nobody takes a lock: LMOVE gives an id to one worker only, and each hash has one writer at a time.
Keys: hashes queue:job:<id>, lists queue:waiting and queue:active:<worker>, list queue:results.
"""
import multiprocessing
import os
import time

import redis


def connect():
    return redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


class Queue:
    def __init__(self, client):
        self.client = client

    def add(self, payload):
        job = self.client.incr("queue:ids")
        key = f"queue:job:{job}"
        if self.client.hsetnx(key, "created", time.time()):
            self.client.hset(key, mapping={"payload": payload, "state": "waiting", "attempts": 0})
        self.client.lpush("queue:waiting", job)
        return job

    def work(self, worker):
        active = f"queue:active:{worker}"
        while (job := self.client.blmove("queue:waiting", active, 1, "RIGHT", "LEFT")) is not None:
            key = f"queue:job:{job}"
            self.client.hincrby(key, "attempts", 1)
            fields = self.client.hgetall(key)
            self.client.hset(key, "state", "active")
            result = int(fields["payload"]) ** 2
            with self.client.pipeline(transaction=True) as done:
                done.rpush("queue:results", result).lrem(active, 1, job).delete(key).execute()


def worker(name):
    Queue(connect()).work(name)


def main():
    client = connect()
    queue = Queue(client)
    workers = [multiprocessing.Process(target=worker, args=(f"w{n}",)) for n in range(3)]
    for process in workers:
        process.start()
    for number in range(1, 31):
        queue.add(number)
    for process in workers:
        process.join()

    results = sorted(int(result) for result in client.lrange("queue:results", 0, -1))
    assert results == [number**2 for number in range(1, 31)], results
    assert not list(client.scan_iter("queue:job:*"))
    print("ok: 30 jobs ran once each on three workers, and no hash of a job is left")


if __name__ == "__main__":
    main()
