"""Blobs are compacted under a lease whose token is the time in seconds.

The script that releases compares the token, as it should. But two workers that started in one second have the same one: the
first, whose lease ran out, releases the lease of the second.
Keys: locks blob:<id>:lease, data blob:<id>:size. The lines marked ! are the evidence.
"""
import os
import subprocess
import sys
import time

import redis

LEASE, SIZE = "blob:9f:lease", "blob:9f:size"
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


def worker(second, milliseconds, saved):
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    token = str(int(float(second)))
    taken = client.set(LEASE, token, nx=True, px=int(milliseconds))  # !
    size = int(client.get(SIZE))
    print("leased" if taken else "refused", flush=True)
    if not taken:
        return
    if sys.stdin.readline() == "compact\n":
        client.set(SIZE, size - int(saved))  # !
    client.eval(RELEASE, 1, LEASE, token)  # !


def start(*words):
    command = [sys.executable, __file__, *map(str, words)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "leased\n"
    return process


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    client.set(SIZE, 900)
    now = time.time()  # the workers were started by one cron, in one second
    first = start(now, 300, 100)
    while client.exists(LEASE):
        time.sleep(0.02)
    second = start(now, 60000, 200)
    first.communicate("give up\n")
    third = start(now + 1, 60000, 400)
    third.communicate("compact\n")
    second.communicate("compact\n")
    size = int(client.get(SIZE))
    if size != 300:
        print(f"damage: 600 of 900 bytes were saved, and {size} are said to be left")


if __name__ == "__main__":
    worker(*sys.argv[1:]) if sys.argv[1:] else main()
