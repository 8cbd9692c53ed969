"""Beach: guests take any free locker and give it back.

Right: a guest picks a locker that is free and moves it from the free to the taken ones. SMOVE does that for one
guest only, and the others, who have picked the same, hear 0 and pick again. Only who has a locker moves it back,
once.
"""
import asyncio
import os

import redis.asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

FREE, TAKEN, HOLDER = "beach:free", "beach:taken", "beach:holder"
LOCKERS = ["dolphin", "crab", "anchor"]
refused = 0
inside = {}


class All:
    """An event that is set when all have come."""

    def __init__(self, names):
        self.missing, self.event = set(names), asyncio.Event()

    def come(self, name):
        self.missing.discard(name)
        if not self.missing:
            self.event.set()

    async def wait_for(self, name):
        self.come(name)
        await self.event.wait()


def connect():
    return redis.from_url(os.environ["REDIS_URL"], decode_responses=True, retry=Retry(NoBackoff(), 0))


async def guest(name, picked, tried):
    global refused
    async with connect() as r:
        while True:
            locker = await r.srandmember(FREE)
            await picked.wait_for(name)
            if locker is None:
                await asyncio.sleep(0.01)
                continue
            moved = await r.smove(FREE, TAKEN, locker)
            if moved:
                break
            refused += 1
            tried.come(name)
        assert locker not in inside, f"{name} opens the locker of {inside[locker]}"
        inside[locker] = name
        await r.hset(HOLDER, locker, name)
        await tried.wait_for(name)
        assert await r.hget(HOLDER, locker) == name
        del inside[locker]
        await r.pipeline().hdel(HOLDER, locker).smove(TAKEN, FREE, locker).execute()


async def main():
    names = [f"guest {number}" for number in range(9)]
    picked, tried = All(names), All(names)

    async with connect() as r:
        await r.sadd(FREE, *LOCKERS)
        await asyncio.wait_for(asyncio.gather(*(guest(name, picked, tried) for name in names)), 15)
        free, others = await r.smembers(FREE), await r.exists(TAKEN, HOLDER)
    assert free == set(LOCKERS) and not others and refused >= 6, (free, others, refused)
    print(f"ok: {len(names)} guests had {len(LOCKERS)} lockers, {refused} times one was refused, and none was shared")


asyncio.run(main())
