"""Three downloads at a time from an archive; each permit is a member of a sorted set with the end of its lease.

One script removes what is over, counts and adds. In the middle of the day an operator empties the set, because all
downloads were stopped: permits of before and after mix, and those of before that are given back are not there any more.
Keys: sorted set archive:permits.
"""
import os
import threading
import time
import uuid

import redis

PERMITS, LIMIT = "archive:permits", 3
ACQUIRE = """
local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ms)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], ms + ARGV[3], ARGV[1])
return 1
"""


class Permits:
    def __init__(self):
        self.client = redis.Redis.from_url(os.environ["REDIS_URL"])
        self.script = self.client.register_script(ACQUIRE)
        self.id = uuid.uuid4().hex

    def acquire(self):
        while not self.script(keys=[PERMITS], args=[self.id, LIMIT, 30_000]):
            time.sleep(0.01)

    def release(self):
        return self.client.zrem(PERMITS, self.id)


def download(meter, rounds):
    for _ in range(rounds):
        permit = Permits()
        permit.acquire()
        with meter["lock"]:
            meter["now"] += 1
            meter["most"] = max(meter["most"], meter["now"])
        time.sleep(0.01)
        with meter["lock"]:
            meter["now"] -= 1
        permit.release()


def day(meter):
    threads = [threading.Thread(target=download, args=(meter, 3)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main():
    meter = {"lock": threading.Lock(), "now": 0, "most": 0}
    day(meter)
    stopped = [Permits(), Permits()]
    for permit in stopped:
        permit.acquire()
    redis.Redis.from_url(os.environ["REDIS_URL"]).delete(PERMITS)  # both downloads were stopped by the operator
    day(meter)
    assert [permit.release() for permit in stopped] == [0, 0]
    assert meter["most"] <= LIMIT, meter
    print(f"ok: never more than {LIMIT} downloads at a time in 36, before and after the permits were reset")


if __name__ == "__main__":
    main()
