"""Couriers enter themselves into the slots of a day. Three services do that, each with its own way to make random tokens.

The lock is taken with SET NX PX. The slots are read under it and stored by a script that compares the token first: if it is still
the lock's, the lock has been held without a gap since the slots were read. Who is refused begins anew.
"""
import base64
import json
import multiprocessing
import os
import secrets
import time

import redis

STORE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[2])
return 1
"""
RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
LOCK, SLOTS, ENTRIES = "courier:tue:dispatch", "courier:tue:slots", 15
NANO = "useandom-26T198340PX75pxJACKVERYMINDBUSHWOLF_GQZbfghjklqvwyzrict"

TOKENS = {
    "base64": lambda: base64.b64encode(secrets.token_bytes(16)).decode(),
    "urlsafe": lambda: secrets.token_urlsafe(16),
    "nano": lambda: "".join(secrets.choice(NANO) for _ in range(21)),
}


def service(style, together):
    r = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    together.wait(15)
    for number in range(ENTRIES):
        stored = False
        while not stored:
            token = TOKENS[style]()
            if not r.set(LOCK, token, nx=True, px=30_000):
                time.sleep(0.003)
                continue
            slots = json.loads(r.get(SLOTS))
            slots.append(f"{style}-{number}")
            stored = r.eval(STORE, 2, LOCK, SLOTS, token, json.dumps(slots)) == 1
            r.eval(RELEASE, 1, LOCK, token)


def main():
    r = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    r.set(SLOTS, "[]")
    spawn = multiprocessing.get_context("spawn")
    together = spawn.Barrier(len(TOKENS))
    services = [spawn.Process(target=service, args=(style, together)) for style in TOKENS]
    for process in services:
        process.start()
    for process in services:
        process.join(18)
        assert process.exitcode == 0
    slots = json.loads(r.get(SLOTS))
    expected = {f"{style}-{number}" for style in TOKENS for number in range(ENTRIES)}
    good = set(slots) == expected and len(slots) == len(expected)
    print(f"ok: all {len(slots)} entries are there once" if good else f"damage: {len(slots)} entries of {len(expected)}")


if __name__ == "__main__":
    main()
