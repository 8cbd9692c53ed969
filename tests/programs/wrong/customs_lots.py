"""Customs: officers inspect lots of a queue, each lot once.

Wrong: an officer looks at the head of the queue by LINDEX, inspects that lot, and removes the head by LPOP. Two
officers inspect the same lot, and the second LPOP removes one that nobody has looked at.
"""
import asyncio
import os
import sys

import redis.asyncio as redis

LOTS, SEEN = "customs:lots", "customs:inspected"


async def officer():
    r = redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    loop = asyncio.get_running_loop()
    lot = await r.lindex(LOTS, 0)
    print(lot, flush=True)
    await loop.run_in_executor(None, sys.stdin.readline)  # the inspection
    await r.sadd(SEEN, lot)
    await r.lpop(LOTS)  # the head, whichever it is by now !
    await r.aclose()


async def main():
    r = redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    lots = ["cocoa", "bicycles", "tiles"]
    await r.rpush(LOTS, *lots)
    pipe = asyncio.subprocess.PIPE
    officers = []
    for _ in range(2):
        child = await asyncio.create_subprocess_exec(sys.executable, __file__, "officer", stdin=pipe, stdout=pipe)
        await child.stdout.readline()
        officers.append(child)
    for child in officers:
        await child.communicate(b"\n")
    left, seen = await r.lrange(LOTS, 0, -1), await r.smembers(SEEN)
    await r.aclose()
    for lot in lots:
        if lot not in left and lot not in seen:
            print(f"damage: {lot} left the queue, and nobody has inspected it")


asyncio.run(officer() if len(sys.argv) > 1 else main())
