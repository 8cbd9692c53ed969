"""Clinic: two desks count doses out of the same fridge.

Wrong: each desk takes the lock of the fridge before it writes, but it has read the number of doses before that. The
desk that waits for the lock writes a number that is no longer true.
"""
import asyncio
import os

import redis.asyncio as redis

FRIDGE = "clinic:fridge:2"
LOCK = "clinic:lock:fridge:2"


async def desk(name, doses, has_read, go_on):
    client = redis.from_url(os.environ["REDIS_URL"], decode_responses=True, single_connection_client=True)
    async with client:
        left = int(await client.hget(FRIDGE, "doses"))  # not yet under the lock !
        has_read.set()
        await go_on.wait()
        async with client.lock(LOCK, timeout=60, sleep=0.02):
            await client.hset(FRIDGE, mapping={"doses": left - doses, "last": name})  # from the early read !


async def main():
    control = redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    await control.hset(FRIDGE, mapping={"doses": 40, "last": "delivery"})

    first, second = asyncio.Event(), asyncio.Event()
    both_read = asyncio.Event()
    desks = [
        asyncio.create_task(desk("morning desk", 6, first, both_read)),
        asyncio.create_task(desk("walk-in desk", 5, second, both_read)),
    ]
    await first.wait()
    await second.wait()
    both_read.set()
    await asyncio.gather(*desks)

    left = int(await control.hget(FRIDGE, "doses"))
    if left != 40 - 6 - 5:
        print(f"damage: 11 doses are given, and the fridge counts {left} of 40")
    await control.aclose()


asyncio.run(main())
