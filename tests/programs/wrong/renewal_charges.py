"""Workers charge subscriptions. A supervisor frees the claims of workers that it believes dead: those older than a tenth of a second.

The first worker is only slow. The supervisor deletes its claim, which has most of a minute left, another worker takes it, and
the customer is charged twice.
Keys: locks renewal:<subscription>:claimed, data charges:<customer>. The lines marked ! are the evidence.
"""
import os
import subprocess
import sys
import time
import uuid

import redis

CLAIM, CHARGES = "renewal:17:claimed", "charges:c-4"


def connect():
    return redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


def worker():
    client, token = connect(), str(uuid.uuid4())
    if not client.set(CLAIM, token, nx=True, ex=60):  # !
        return
    print("claimed", flush=True)
    sys.stdin.readline()
    client.incrby(CHARGES, 9)  # !
    release = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
    client.eval(release, 1, CLAIM, token)


def supervisor(patience):
    client = connect()
    while client.ttl(CLAIM) > 60 - float(patience):
        time.sleep(0.05)
    for claim in client.scan_iter("renewal:*:claimed"):
        client.delete(claim)  # !


def start(*words):
    return subprocess.Popen([sys.executable, __file__, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def main():
    first = start("worker")
    first.stdout.readline()
    start("supervisor", "0.1").wait()
    second = start("worker")
    second.stdout.readline()
    for each in (second, first):
        each.communicate("charge\n")
    charged = int(connect().get(CHARGES))
    if charged != 9:
        print(f"damage: the customer owes 9 and is charged {charged}")


if __name__ == "__main__":
    {"worker": worker, "supervisor": supervisor}[sys.argv[1]](*sys.argv[2:]) if sys.argv[1:] else main()
