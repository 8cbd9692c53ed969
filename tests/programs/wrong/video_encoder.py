"""Segments of a video are encoded by a worker that keeps its lease alive from a thread.

The heartbeat compares the token before it extends, and is told 0 once the lease is lost. It writes that to the log and
ends. The encoding thread hears nothing of it and stores its result over that of the worker that has taken over.
Keys: lock encode:<video>:lease, data encode:<video>:playlist. The lines marked ! are the evidence.
"""
import multiprocessing
import os
import secrets
import threading
import time

import redis

LEASE, PLAYLIST = "encode:v55:lease", "encode:v55:playlist"
EXTEND = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class Lease:
    def __init__(self, pool):
        self.redis, self.token = redis.Redis(connection_pool=pool), secrets.token_hex(16)

    def take(self):
        while not self.redis.set(LEASE, self.token, nx=True, px=300):
            time.sleep(0.02)

    def heartbeat(self, stalled):
        stalled.wait(5)  # the thread does not get the processor in time
        while self.redis.eval(EXTEND, 1, LEASE, self.token, 300):  # !
            time.sleep(0.1)
        print("heartbeat: the lease is lost", flush=True)

    def give_back(self):
        self.redis.eval(RELEASE, 1, LEASE, self.token)


def encode(segment, begun, go_on):
    pool = redis.ConnectionPool.from_url(os.environ["REDIS_URL"])
    store, lease = redis.Redis(connection_pool=pool, decode_responses=True), Lease(pool)
    lease.take()
    heartbeat = threading.Thread(target=lease.heartbeat, args=(go_on,))
    heartbeat.start()
    playlist = store.get(PLAYLIST) or b""  # !
    begun.set()
    heartbeat.join()
    store.set(PLAYLIST, playlist + segment.encode() + b";")  # !
    lease.give_back()


def take_over(begun, go_on):
    begun.wait(5)
    store = redis.Redis.from_url(os.environ["REDIS_URL"])
    lease = Lease(store.connection_pool)
    lease.take()
    store.set(PLAYLIST, (store.get(PLAYLIST) or b"") + b"seg-2;")  # !
    go_on.set()
    time.sleep(0.1)
    lease.give_back()


def main():
    begun, go_on = multiprocessing.Event(), multiprocessing.Event()
    workers = [
        multiprocessing.Process(target=encode, args=("seg-1", begun, go_on)),
        multiprocessing.Process(target=take_over, args=(begun, go_on)),
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    playlist = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True).get(PLAYLIST)
    if "seg-2" not in playlist:
        print(f"damage: seg-2 was encoded by the holder and is not in the playlist: {playlist}")


if __name__ == "__main__":
    main()
