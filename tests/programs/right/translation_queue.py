"""Subtitles: workers translate lines of a queue; one worker dies with a line in its hands.

Right: LMOVE puts a line into the worker's own list before it is worked on. What is left in the list of a worker that
has exited goes back to the queue. A line that is done twice by that has one result, for HSETNX keeps the first.
"""
import asyncio
import os
import sys

import redis.asyncio as redis

QUEUE, RESULTS = "subtitles:todo", "subtitles:done"


def connect():
    return redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


async def worker(name, dies):
    async with connect() as r:
        mine = f"subtitles:worker:{name}"
        while line := await r.lmove(QUEUE, mine, "LEFT", "RIGHT"):
            await r.hsetnx(RESULTS, line, f"{line.upper()} ({name})")
            if dies == "dies":
                os._exit(3)  # the result is there, and the line is still in the list
            await r.lrem(mine, 1, line)


async def crew(*members):
    async def run(name, dies="stays"):
        child = await asyncio.create_subprocess_exec(sys.executable, __file__, name, dies)
        await child.wait()
        async with connect() as r:  # the worker is gone, the list is nobody's
            while await r.lmove(f"subtitles:worker:{name}", QUEUE, "RIGHT", "LEFT"):
                pass
        return child.returncode

    return await asyncio.gather(*(run(*member) for member in members))


async def main():
    lines = [f"line {number}" for number in range(12)]
    async with connect() as r:
        await r.rpush(QUEUE, *lines)
        codes = await crew(("ana", "dies"))
        codes += await crew(("ben",), ("cleo",))
        results, left = await r.hgetall(RESULTS), await r.keys("subtitles:todo") + await r.keys("subtitles:worker:*")
    assert codes == [3, 0, 0] and not left, (codes, left)
    assert sorted(results) == sorted(lines) and sum("(ana)" in text for text in results.values()) == 1
    print(f"ok: {len(results)} lines are translated, one of them by a worker that died after it")


asyncio.run(worker(*sys.argv[1:]) if len(sys.argv) > 1 else main())
