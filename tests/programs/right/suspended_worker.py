"""Payout files are numbered by one worker at a time; a worker that was suspended is kept out by the store.

The first worker's process is stopped for longer than its lease. When it runs again, its transaction, which watches the
counter since before it was read, is refused by EXEC, and it starts again under a new hold.
Keys: lock payout-files:lock, data payout-files:last, list payout-files:names.
"""
import multiprocessing
import os
import secrets
import signal
import time

import redis

LOCK, LAST, NAMES = "payout-files:lock", "payout-files:last", "payout-files:names"
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


def number_file(name, link):
    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    tries = 0
    while True:
        token = secrets.token_hex(16)
        while not client.set(LOCK, token, nx=True, px=300):
            time.sleep(0.02)
        tries += 1
        with client.pipeline() as pipe:
            try:
                pipe.watch(LAST)
                number = int(pipe.get(LAST) or 0) + 1
                if tries == 1:
                    link.send("read")
                    link.recv()
                pipe.multi()
                pipe.set(LAST, number).rpush(NAMES, f"{number} {name}")
                pipe.execute()
                break
            except redis.WatchError:
                continue
            finally:
                client.eval(RELEASE, 1, LOCK, token)
    link.send(tries)


def start(name):
    here, there = multiprocessing.Pipe()
    process = multiprocessing.Process(target=number_file, args=(name, there), daemon=True)
    process.start()
    return process, here


def main():
    morning, from_morning = start("morning")
    from_morning.recv()
    os.kill(morning.pid, signal.SIGSTOP)
    from_morning.send("go on")
    _, from_noon = start("noon")
    from_noon.recv()
    from_noon.send("go on")
    tries = [from_noon.recv()]
    os.kill(morning.pid, signal.SIGCONT)
    tries.append(from_morning.recv())
    names = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True).lrange(NAMES, 0, -1)
    assert (tries, names) == ([1, 2], ["1 noon", "2 morning"]), (tries, names)
    print("ok: the suspended worker was refused and took the next number")


if __name__ == "__main__":
    main()
