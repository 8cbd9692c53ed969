"""A printing house takes jobs in two halls. A press is locked before its plan is changed, and there are three lock servers.

Wrong: each hall asks only the server that is next to it, one of several. Both get a "yes" for the same press from
different servers at the same time, and both rewrite the plan, which is on one server.
"""
import asyncio
import os
import secrets

import redis.asyncio

URLS = os.environ["REDIS_URLS"].split(",")
LOCK, PLAN = "press:offset-1:hold", "press:offset-1:plan"
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


def connect(url):
    return redis.asyncio.Redis.from_url(url, decode_responses=True, single_connection_client=True)


async def hall(number, job, has_read, may_write, written):
    near, plans = connect(URLS[number]), connect(URLS[0])
    token = secrets.token_urlsafe(24)
    if not await near.set(LOCK, token, nx=True, px=60_000):  # one server: the other hall asks another one!
        raise RuntimeError("the press is in use")
    plan = await plans.hget(PLAN, "jobs")
    has_read.set()
    await may_write.wait()
    await plans.hset(PLAN, "jobs", f"{plan} {job}".strip())  # the other hall has read the same plan!
    written.set()
    assert await near.eval(RELEASE, 1, LOCK, token) == 1
    await near.aclose()
    await plans.aclose()


async def main():
    plans = connect(URLS[0])
    await plans.hset(PLAN, "jobs", "calendar")
    north_read, south_read, north_written, south_written = (asyncio.Event() for _ in range(4))
    await asyncio.wait_for(
        asyncio.gather(
            hall(1, "posters", north_read, south_read, north_written),
            hall(2, "flyers", south_read, north_written, south_written),
        ),
        15,
    )
    jobs = (await plans.hget(PLAN, "jobs")).split()
    await plans.aclose()
    lost = [job for job in ("calendar", "posters", "flyers") if job not in jobs]
    print(f"damage: {', '.join(lost)} will not be printed" if lost else "ok: all jobs are in the plan")


asyncio.run(main())
