"""Instances of a help desk put their default texts into Redis when they start; an editor replaces some of them.

Defaults are written with SETNX and HSETNX: the first instance's stand, and none replaces what the editor has set, whether it starts
before or after. An instance that looks first and then calls SETNX does no harm either. The editor's SET is meant to replace.
"""
import asyncio
import os

import redis.asyncio

DEFAULTS = {"hello": "Hello!", "wait": "One moment, please.", "bye": "Good bye!"}


def connect():
    return redis.asyncio.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True, single_connection_client=True)


async def instance(number, together):
    async with connect() as r:
        missing = [name for name in DEFAULTS if not await r.exists(f"desk:text:{name}")]
        await together.wait()
        for name in missing:
            await r.setnx(f"desk:text:{name}", DEFAULTS[name])
        await r.hsetnx("desk:about", "texts_by", f"instance {number}")
        return {name: await r.get(f"desk:text:{name}") for name in DEFAULTS}, await r.hget("desk:about", "texts_by")


async def editor(together):
    async with connect() as r:
        await together.wait()
        await r.set("desk:text:hello", "Moin!")


async def main():
    together = asyncio.Barrier(4)
    first = await asyncio.gather(*(instance(number, together) for number in range(3)), editor(together))
    alone = asyncio.Barrier(1)
    later, writer = await instance(3, alone)
    writers = {seen[1] for seen in first[:3]} | {writer}
    if later == {**DEFAULTS, "hello": "Moin!"} and len(writers) == 1:
        print("ok: the editor's text stands, and the defaults are the first instance's")
    else:
        print(f"damage: texts {later}, defaults of {sorted(writers)}")


asyncio.run(main())
