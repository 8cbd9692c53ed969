"""Calls to a partner, four at a time over all processes, as a semaphore in a sorted set.

A script removes slots that are over, counts, and adds, so that no two callers count the same number. The time is the
server's. A caller that does not get a slot waits; a slot is given back by its own id.
Keys: sorted set partner-api:slots.
"""
import asyncio
import multiprocessing
import os
import uuid
from contextlib import asynccontextmanager

import redis.asyncio as redis

SLOTS, LIMIT = "partner-api:slots", 4
ENTER = """
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now)
if redis.call('ZCARD', KEYS[1]) < tonumber(ARGV[1]) then
    redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[3])
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    return 1
end
return 0
"""


class Quota:
    def __init__(self, client):
        self.client, self.enter = client, client.register_script(ENTER)

    @asynccontextmanager
    async def slot(self):
        slot = uuid.uuid4().hex
        while not await self.enter(keys=[SLOTS], args=[LIMIT, 60_000, slot]):
            await asyncio.sleep(0.005)
        try:
            yield
        finally:
            await self.client.zrem(SLOTS, slot)


async def callers(now, most, count):
    client = redis.from_url(os.environ["REDIS_URL"])
    quota = Quota(client)

    async def call():
        async with quota.slot():
            with now.get_lock():
                now.value += 1
                most.value = max(most.value, now.value)
            await asyncio.sleep(0.01)
            with now.get_lock():
                now.value -= 1

    await asyncio.gather(*[call() for _ in range(count)])
    await client.aclose()


def process(now, most, count):
    asyncio.run(callers(now, most, count))


def main():
    now, most = multiprocessing.Value("i", 0), multiprocessing.Value("i", 0)
    processes = [multiprocessing.Process(target=process, args=(now, most, 10)) for _ in range(3)]
    for child in processes:
        child.start()
    for child in processes:
        child.join()
    assert most.value <= LIMIT and now.value == 0, (most.value, now.value)
    print(f"ok: 30 calls from three processes, never more than {LIMIT} at a time")


if __name__ == "__main__":
    main()
