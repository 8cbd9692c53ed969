"""Ground station: planners put passes of satellites into the plan of an antenna.

Wrong: the lease was meant to be 300 seconds and is 300 milliseconds (px for ex), less than any planning takes. The
first planner writes when the second one has already got the lock and has not read yet; that is luck. The release says
0 to both.
"""
import os
import secrets
import time
from multiprocessing import Process, Queue

import redis

LOCK, PLAN = "antenna:dish1:planning", "antenna:dish1:plan"
FIVE_MINUTES = 300
LEAVE = "return redis.call('get', KEYS[1]) == ARGV[1] and redis.call('del', KEYS[1]) or 0"


class Planning:
    def __init__(self, r):
        self.r, self.token = r, secrets.token_hex(16)
        self.leave = r.register_script(LEAVE)
        self.kept = None

    def __enter__(self):
        while not self.r.set(LOCK, self.token, nx=True, px=FIVE_MINUTES):  # px, not ex !
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        self.kept = bool(self.leave(keys=[LOCK], args=[self.token]))


def planner(satellite, says, hears):
    r = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    with Planning(r) as planning:
        says.put(satellite)
        hears.get()
        plan = r.hget(PLAN, "passes")
        r.hset(PLAN, "passes", f"{plan},{satellite}")  # the lease was over long before !
    says.put(planning.kept)


def main():
    r = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    r.hset(PLAN, "passes", "NOAA-19")
    says, planners = Queue(), []
    for satellite in ("METEOR-M2", "LANDSAT-9"):
        hears = Queue()
        process = Process(target=planner, args=(satellite, says, hears))
        process.start()
        says.get(timeout=15)  # the second one says that it has the lock, when the first one's lease is over
        planners.append((process, hears))
    kept = []
    for process, hears in planners:
        hears.put("go on")
        kept.append(says.get(timeout=15))
        process.join()
        time.sleep(0.4)  # the other one is still planning
    written = len(r.hget(PLAN, "passes").split(",")) - 1
    if written == 2 and not any(kept):
        print("would: nothing is lost, but both passes were planned when the planner had no lease any more")


if __name__ == "__main__":
    main()
