"""Card settlements are added up per merchant, one batch worker at a time.

The lock is taken as documented: SET NX with an expiry, a random token, release by a script. But the worker fetches rates
from a partner inside, that takes longer than the lease, and it never asks whether it still holds: it adds its batch
to a sum that somebody else has changed meanwhile.
Keys: lock settle:{merchant}:lock, data settle:{merchant}, field cents. The lines marked ! are the evidence.
"""
import os
import subprocess
import sys
import time
import uuid

import redis

LOCK, SUM = "settle:{m-31}:lock", "settle:{m-31}"
LEASE_MS = 250
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


def settle(batch, cents, partner_is_slow):
    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    token = str(uuid.uuid4())
    while not client.set(LOCK, token, nx=True, px=LEASE_MS):  # !
        time.sleep(0.02)
    before = int(client.hget(SUM, "cents") or 0)  # !
    print("holds", flush=True)
    if partner_is_slow:
        sys.stdin.readline()
    client.hset(SUM, mapping={"cents": before + cents, "last_batch": batch})  # !
    client.eval(RELEASE, 1, LOCK, token)
    print("settled", flush=True)


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, __file__, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )


def main():
    slow = start("b1", "9900", "slow")
    assert slow.stdout.readline() == "holds\n"
    quick = start("b2", "1250", "")
    assert quick.communicate()[0] == "holds\nsettled\n"
    slow.communicate("the rates\n")

    done = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True).hgetall(SUM)
    if done["cents"] != "11150":
        print(f"damage: batches of 9900 and 1250 cents were settled, the sum is {done['cents']}")


if __name__ == "__main__":
    settle(sys.argv[1], int(sys.argv[2]), bool(sys.argv[3])) if sys.argv[1:] else main()
