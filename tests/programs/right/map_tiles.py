"""Two machines build map tiles and enter them into one index. A build takes longer than the lease of its lock.

A thread renews the lease over a connection of its own, with a script that compares. It need not be in time: the index is stored by a
script that compares the token too, and who has lost the lease begins anew.
"""
import json
import multiprocessing
import os
import secrets
import threading
import time

import redis

LEASE = 1000
RENEW = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0"
RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
STORE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[2])
return 1
"""
BUILDER, INDEX = "tiles:z12:builder", "tiles:z12:index"


def connect():
    return redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


class Renewer(threading.Thread):
    def __init__(self, token):
        super().__init__(daemon=True)
        self.r, self.token = connect(), token
        self.stopped, self.long_enough = threading.Event(), threading.Event()

    def run(self):
        begin = time.monotonic()
        while not self.stopped.wait(0.1):
            if not self.r.eval(RENEW, 1, BUILDER, self.token, LEASE):
                break
            if time.monotonic() - begin > LEASE / 1000 * 1.3:
                self.long_enough.set()
        self.long_enough.set()

    def stop(self):
        self.stopped.set()
        self.join()
        self.r.close()


def machine(tile, together):
    r = connect()
    together.wait(15)
    stored = False
    while not stored:
        token = secrets.token_hex(16)
        while not r.set(BUILDER, token, nx=True, px=LEASE):
            time.sleep(0.02)
        renewer = Renewer(token)
        renewer.start()
        index = json.loads(r.get(INDEX))
        assert renewer.long_enough.wait(15)  # the build
        index.append(tile)
        stored = r.eval(STORE, 2, BUILDER, INDEX, token, json.dumps(index)) == 1
        renewer.stop()
        r.eval(RELEASE, 1, BUILDER, token)


def main():
    r = connect()
    r.set(INDEX, "[]")
    spawn = multiprocessing.get_context("spawn")
    together = spawn.Barrier(2)
    machines = [spawn.Process(target=machine, args=(tile, together)) for tile in ("12/2161", "12/2162")]
    for process in machines:
        process.start()
    for process in machines:
        process.join(18)
        assert process.exitcode == 0
    index = json.loads(r.get(INDEX))
    good = sorted(index) == ["12/2161", "12/2162"]
    print("ok: both tiles are in the index" if good else f"damage: index {index}")


if __name__ == "__main__":
    main()
