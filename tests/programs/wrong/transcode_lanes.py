"""A media service has two hardware lanes for transcoding; the tasks that use one are members of a sorted set.

Wrong: a task removes what is over, asks with ZCARD whether a lane is free, and then adds itself with ZADD. Several
tasks that ask before one has been added all go in, more than there are lanes.
"""
import asyncio
import os
import time
import uuid

import redis.asyncio

LANES, KEY = 2, "media:eu:lanes:active"


class Task:
    def __init__(self, asked):
        self.asked, self.name = asked, str(uuid.uuid4())
        self.r = redis.asyncio.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True, single_connection_client=True)

    async def enter(self):
        now = time.time()
        await self.r.zremrangebyscore(KEY, "-inf", now - 300)
        used = await self.r.zcard(KEY)
        if self.asked:
            await self.asked.wait()  # the others have asked as well
        if used >= LANES:
            return False
        await self.r.zadd(KEY, {self.name: now})  # the lane may have been given away since!
        return True

    async def leave(self):
        await self.r.zrem(KEY, self.name)
        await self.r.aclose()


async def main():
    asked = asyncio.Barrier(3)
    running, short, early = Task(None), Task(None), Task(None)
    assert [await task.enter() for task in (running, short, early)] == [True, True, False]
    await short.leave()
    await early.r.aclose()
    tasks = [Task(asked) for _ in range(3)]
    entered = await asyncio.wait_for(asyncio.gather(*(task.enter() for task in tasks)), 15)
    inside = await running.r.zcard(KEY)
    for task in tasks:
        await task.leave()
    await running.leave()
    if inside > LANES:
        print(f"damage: {inside} tasks use {LANES} lanes, {sum(entered)} of 3 were let in together")
    else:
        print(f"ok: {inside} tasks use {LANES} lanes")


asyncio.run(main())
