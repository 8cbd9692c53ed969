"""Cells of a shared table, changed by asyncio services with WATCH, which try again when somebody was faster.

The text is read before the loop. The second try watches anew, but writes what was made of the first reading: the change because of
which it had to try again is gone.
Keys: data table:<name>:<cell>. The lines marked ! are the evidence.
"""
import asyncio
import os
import sys

import redis.asyncio as redis

CELL = "table:plan:C4"


async def append(word, is_slow):
    async with redis.from_url(os.environ["REDIS_URL"], decode_responses=True) as client:
        text = await client.get(CELL)  # !
        while True:
            async with client.pipeline() as pipe:
                await pipe.watch(CELL)  # !
                if is_slow:
                    print("watching", flush=True)
                    await asyncio.to_thread(sys.stdin.readline)
                    is_slow = False
                pipe.multi()
                pipe.set(CELL, f"{text} {word}")
                try:
                    await pipe.execute()  # !
                    return
                except redis.WatchError:
                    pass


async def start(*words):
    pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
    return await asyncio.create_subprocess_exec(sys.executable, __file__, *words, **pipes)


async def main():
    async with redis.from_url(os.environ["REDIS_URL"], decode_responses=True) as client:
        await client.set(CELL, "paint")
        slow = await start("walls", "slow")
        await slow.stdout.readline()
        fast = await start("doors")
        await fast.wait()
        await slow.communicate(b"go\n")
        text = await client.get(CELL)
    if text.split() != ["paint", "doors", "walls"]:
        print(f"damage: doors and walls were written into the cell, and it says: {text}")


if __name__ == "__main__":
    asyncio.run(append(sys.argv[1], len(sys.argv) > 2) if sys.argv[1:] else main())
