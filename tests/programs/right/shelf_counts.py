"""The counts of a shelf are changed with WATCH and MULTI, by asyncio services that read anew for each try.

Tasks of one service share a pool, and two services do the same. Who was overtaken is told so by EXEC, and tries again.
Keys: data shelf:<number>:count.
"""
import asyncio
import os
import sys

import redis.asyncio as redis

SHELF = "shelf:12:count"


async def put(client, pieces, meets):
    while True:
        async with client.pipeline(transaction=True) as pipe:
            await pipe.watch(SHELF)
            count = int(await pipe.get(SHELF) or 0)
            await meets()
            pipe.multi()
            pipe.set(SHELF, count + pieces)
            try:
                await pipe.execute()
                return
            except redis.WatchError:
                pass


async def service(pieces):
    arrived, all_have_read = [], asyncio.Event()

    async def meets():
        arrived.append(1)
        if len(arrived) == 3:
            print("three have read", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            all_have_read.set()
        await all_have_read.wait()

    async with redis.from_url(os.environ["REDIS_URL"]) as client:
        await asyncio.gather(*[put(client, int(pieces), meets) for _ in range(3)])


async def main():
    pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
    services = [await asyncio.create_subprocess_exec(sys.executable, __file__, pieces, **pipes) for pieces in ("1", "100")]
    for each in services:
        await each.stdout.readline()
    await asyncio.gather(*[each.communicate(b"go\n") for each in services])
    async with redis.from_url(os.environ["REDIS_URL"]) as client:
        count = int(await client.get(SHELF))
    assert count == 303, count
    print("ok: six tasks of two services read the same count, and all of their pieces are there")


if __name__ == "__main__":
    asyncio.run(service(*sys.argv[1:]) if sys.argv[1:] else main())
