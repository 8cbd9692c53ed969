"""A care home notes the rounds of its wards. Replicas of the service take turns with a lock that is released by a comparing script.

Wrong: what it compares is the name of the service, and all replicas have the same. A replica whose lease was over releases the hold
of the next one, and the third one goes in beside it.
"""
import asyncio
import os

import redis.asyncio

LOCK, ROUNDS, NAME = "home:elm:rounds:turn", "home:elm:rounds", "rounds-service"
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


def connect():
    return redis.asyncio.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True, single_connection_client=True)


async def replica(lease, amount, start, has_read, may_write, written, may_release, released):
    await start.wait()
    async with connect() as r:
        while not await r.set(LOCK, NAME, nx=True, px=lease):  # the same value for all!
            await asyncio.sleep(0.02)
        rounds = int(await r.get(ROUNDS))
        has_read.set()
        await may_write.wait()
        await r.set(ROUNDS, rounds + amount)  # two of them write from the same number!
        written.set()
        await may_release.wait()
        await r.eval(RELEASE, 1, LOCK, NAME)  # deletes whatever hold is there!
        released.set()


async def main():
    async with connect() as r:
        await r.set(ROUNDS, 0)
        read, written, released = ([asyncio.Event() for _ in range(3)] for _ in range(3))
        at_once = asyncio.Event()
        at_once.set()
        await asyncio.wait_for(
            asyncio.gather(
                # It writes in time, and is late with the release.
                replica(300, 1, at_once, read[0], at_once, written[0], read[1], released[0]),
                replica(60_000, 10, written[0], read[1], read[2], written[1], written[2], released[1]),
                replica(60_000, 100, released[0], read[2], written[1], written[2], at_once, released[2]),
            ),
            15,
        )
        rounds = int(await r.get(ROUNDS))
        print(f"damage: 111 rounds were made, {rounds} are noted" if rounds != 111 else "ok: 111 rounds are noted")


asyncio.run(main())
