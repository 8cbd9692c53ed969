"""Weather service: one of several machines publishes the forecast.

Right: who becomes leader gets the next term, in the same script. The publication is a script that takes no other
term than the newest. A leader that slept through its lease is told so twice: by its renewal, and when it publishes.
"""
import os
import secrets
import time
from multiprocessing import Pipe, Process

import redis

KEYS = ["{weather}:leader", "{weather}:term", "{weather}:forecast"]
ELECT = """
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return false end
return redis.call('INCR', KEYS[2])
"""
RENEW = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('PEXPIRE', KEYS[1], ARGV[2]) or 0"
PUBLISH = """
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[3], 'term', ARGV[1], 'text', ARGV[2])
return 1
"""


def machine(orders):
    r = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    elect, renew, publish = map(r.register_script, (ELECT, RENEW, PUBLISH))
    me, term = secrets.token_hex(16), 0
    while order := orders.recv():
        word, *rest = order
        if word == "run":
            elected = elect(keys=KEYS[:2], args=[me, *rest])
            term = elected or term
            orders.send(elected)
        elif word == "renew":
            orders.send(bool(renew(keys=KEYS[:1], args=[me, 60_000])))
        elif word == "publish":
            orders.send(bool(publish(keys=KEYS, args=[term, *rest])))


class Machine:
    def __init__(self):
        self.orders, there = Pipe()
        self.process = Process(target=machine, args=(there,))
        self.process.start()
        there.close()

    def __call__(self, *order):
        self.orders.send(order)
        return self.orders.recv()

    def stop(self):
        self.orders.send(None)
        self.process.join()


def main():
    north, south = Machine(), Machine()
    assert north("run", 300) == 1 and north("publish", "rain")
    time.sleep(0.4)
    assert south("run", 60_000) == 2
    stale = north("publish", "more rain")
    kept = north("renew")
    refused = north("run", 60_000)
    assert south("renew") and south("publish", "sun")
    late = north("publish", "still rain")
    north.stop()
    south.stop()
    forecast = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True).hgetall(KEYS[2])
    assert not stale and not kept and refused is None and not late and forecast == {"term": "2", "text": "sun"}
    print(f"ok: the old leader is refused, and the forecast of term {forecast['term']} is {forecast['text']}")


if __name__ == "__main__":
    main()
