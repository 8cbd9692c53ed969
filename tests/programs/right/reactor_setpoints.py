"""Bioreactor: controllers adjust a set-point in small steps, one controller at a time.

Right: the lock comes with a number that only grows, and the store knows the highest one it has been shown, already
at the read. A controller whose lease ran out between read and write comes with an old number and is refused.
"""
import os
import time
from multiprocessing import Event, Process, SimpleQueue

import redis

LOCK, FENCE, STORE = "{reactor}:control", "{reactor}:fence", "{reactor}:setpoint"
TAKE = """
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return redis.call('INCR', KEYS[2]) end
return 0
"""
LEAVE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
SHOW = """
local highest = tonumber(redis.call('HGET', KEYS[1], 'fence') or 0)
if tonumber(ARGV[1]) < highest then return false end
redis.call('HSET', KEYS[1], 'fence', ARGV[1])
if ARGV[2] then redis.call('HSET', KEYS[1], 'millidegrees', ARGV[2]) end
return redis.call('HGET', KEYS[1], 'millidegrees')
"""


def controller(step, lease, accepted, has_read, may_write):
    r = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    take, leave, show = (r.register_script(text) for text in (TAKE, LEAVE, SHOW))
    me = os.urandom(16).hex()
    while not (number := take(keys=[LOCK, FENCE], args=[me, lease])):
        time.sleep(0.03)
    now = show(keys=[STORE], args=[number])
    has_read.set()
    may_write.wait(15)
    wrote = now is not None and show(keys=[STORE], args=[number, int(now) + step]) is not None
    accepted.put((step, wrote))
    leave(keys=[LOCK], args=[me])


def main():
    r = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    r.hset(STORE, "millidegrees", 37000)
    accepted = SimpleQueue()

    def start(step, lease):
        has_read, may_write = Event(), Event()
        process = Process(target=controller, args=(step, lease, accepted, has_read, may_write))
        process.start()
        assert has_read.wait(15)
        return process, may_write

    stalled = start(+500, 300)
    second = start(-200, 60_000)  # once the lease of the first is over
    for process, may_write in (stalled, second):  # the stalled one is the first to write
        may_write.set()
        process.join()
    results = dict(accepted.get() for _ in range(2))
    value = int(r.hget(STORE, "millidegrees"))
    assert results == {500: False, -200: True} and value == 36800, (results, value)
    print(f"ok: the late step was refused, and the set-point is {value / 1000}")


if __name__ == "__main__":
    main()
