"""Forge: smiths share two power hammers; a smith who has one may ask for it again from a helper function.

Right: the lock is a hash of its owner and how often he is inside. Both are changed by scripts, so that only the owner
goes deeper and only the last way out deletes it. It has no expiry, and no request is sent twice.
"""
import os
import threading
import time
import uuid
from contextlib import contextmanager

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

ENTER = """
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
    return redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
end
return 0
"""
LEAVE = """
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return redis.error_reply('not the owner') end
if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then return 1 end
return redis.call('DEL', KEYS[1])
"""


class Smith(threading.Thread):
    def __init__(self, hammers):
        super().__init__()
        self.r = redis.Redis.from_url(
            os.environ["REDIS_URL"], decode_responses=True, max_connections=1, retry=Retry(NoBackoff(), 0)
        )
        self.enter, self.leave = self.r.register_script(ENTER), self.r.register_script(LEAVE)
        self.me, self.hammers, self.deepest = uuid.uuid4().hex, hammers, 0

    @contextmanager
    def at(self, hammer):
        lock = f"forge:hammer:{hammer}"
        while not (depth := self.enter(keys=[lock], args=[self.me])):
            time.sleep(0.01)
        self.deepest = max(self.deepest, depth)
        try:
            yield
        finally:
            self.leave(keys=[lock], args=[self.me])

    def strike(self, hammer):
        with self.at(hammer):
            blows = int(self.r.get(f"forge:blows:{hammer}") or 0)
            self.r.set(f"forge:blows:{hammer}", blows + 1)

    def run(self):
        for hammer in self.hammers:
            with self.at(hammer):
                self.strike(hammer)
                self.strike(hammer)


smiths = [Smith(order) for order in ("abab", "baba", "abba", "bbaa")]
for smith in smiths:
    smith.start()
for smith in smiths:
    smith.join()
r = smiths[0].r
blows = [int(r.get(f"forge:blows:{hammer}")) for hammer in "ab"]
assert blows == [16, 16] and all(smith.deepest == 2 for smith in smiths), blows
assert not r.exists("forge:hammer:a", "forge:hammer:b")
print(f"ok: {sum(blows)} blows of four smiths, all counted")
