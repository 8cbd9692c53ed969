"""A container yard plans its slots. A planner has a lease, and may be stalled for longer than that.

The plan is stored with WATCH on the lease and on the plan, after a look at the lease: if either has changed or has run out
by the time of EXEC, nothing is written, and the planner takes the lease again and plans anew. Planners are threads.
"""
import json
import os
import secrets
import threading
import time

import redis

URL = os.environ["REDIS_URL"]
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
LEASE, PLAN = "yard:planner:lease", "yard:plan"
refused, errors = [], []


def store(r, container, token, stall):
    with r.pipeline() as pipe:
        pipe.watch(LEASE, PLAN)
        if pipe.get(LEASE) != token:
            return False
        slots = json.loads(pipe.get(PLAN))
        stall()
        slots[container] = f"slot {len(slots)}"
        pipe.multi()
        pipe.set(PLAN, json.dumps(slots))
        try:
            pipe.execute()
        except redis.WatchError:
            return False
        return True


def plan(container, lease, stall):
    try:
        r = redis.Redis.from_url(URL, decode_responses=True)
        while True:
            token = secrets.token_hex(16)
            while not r.set(LEASE, token, nx=True, px=lease):
                time.sleep(0.02)
            stored = store(r, container, token, stall)
            r.eval(RELEASE, 1, LEASE, token)
            if stored:
                return
            refused.append(container)
    except Exception as error:
        errors.append(error)


def main():
    r = redis.Redis.from_url(URL, decode_responses=True)
    r.set(PLAN, "{}")
    has_read, other_done = threading.Event(), threading.Event()

    def stall():
        has_read.set()
        assert other_done.wait(15)

    stalled = threading.Thread(target=plan, args=("MSKU-1", 300, stall))
    stalled.start()
    assert has_read.wait(15)
    other = threading.Thread(target=plan, args=("TGHU-2", 60_000, lambda: None))
    other.start()
    other.join()
    other_done.set()
    stalled.join()
    crowd = [threading.Thread(target=plan, args=(f"CMAU-{n}", 60_000, lambda: None)) for n in range(3, 7)]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    assert not errors, errors
    slots = json.loads(r.get(PLAN))
    good = sorted(slots.values()) == [f"slot {n}" for n in range(6)] and "MSKU-1" in refused
    print(f"ok: {len(slots)} containers have a slot each" if good else f"damage: {slots}, refused {refused}")


main()
