"""aiocache: a cache that several processes fill and empty, with a lock against stampedes and an optimistic one."""
import asyncio
from urllib.parse import urlsplit

from aiocache import Cache, cached_stampede
from aiocache.lock import OptimisticLock, OptimisticLockError, RedLock
from aiocache.serializers import JsonSerializer

from processes import URL, done, join, play, start

WHERE = {"endpoint": urlsplit(URL).hostname, "port": urlsplit(URL).port, "namespace": "main"}


@cached_stampede(lease=2, ttl=1, cache=Cache.REDIS, key_builder=lambda f, page: f"page-{page}",
                 serializer=JsonSerializer(), **WHERE)
async def render(page):
    await asyncio.sleep(0.02)
    return {"page": page}


async def read():
    cache = Cache(Cache.REDIS, serializer=JsonSerializer(), **WHERE)
    for visit in range(10):
        assert await render(visit % 2) == {"page": visit % 2}
        async with RedLock(cache, "report", lease=2):
            if await cache.get("report") is None:
                await cache.set("report", {"made": True}, ttl=1)
        try:
            async with OptimisticLock(cache, "counter") as lock:
                await lock.cas(visit)
        except OptimisticLockError:
            pass
        try:
            await cache.add("first", {"visit": visit})
        except ValueError:
            await cache.get("first")
        await cache.increment("visits")
    await cache.delete("first")
    await cache.close()


def main():
    join([start("reader") for _ in range(3)])
    done("all pages were right", True)


play({"main": main, "reader": lambda: asyncio.run(read())})
