"""An inventory service in asyncio: many tasks share one pool of connections, and two processes do the same.

Each change of an article takes the article's lock with the asyncio Lock of redis-py. Commands of one task run over any
connection of the pool, so that the lock and the work of one hold use different connections.
Keys: locks inv:<article>:lk, data inv:<article>.
"""
import asyncio
import multiprocessing
import os

import redis.asyncio as redis

ARTICLES = ["bolt", "nut", "washer"]


async def change(client, article, pieces):
    async with client.lock(f"inv:{article}:lk", timeout=20, sleep=0.005):
        have = int(await client.get(f"inv:{article}") or 0)
        await asyncio.sleep(0.002)
        await client.set(f"inv:{article}", have + pieces)


async def serve():
    pool = redis.ConnectionPool.from_url(os.environ["REDIS_URL"])
    client = redis.Redis(connection_pool=pool)
    await asyncio.gather(*[change(client, article, pieces) for article in ARTICLES for pieces in (1, 10, 100, 1000)])
    await client.aclose()
    await pool.disconnect()


def service(barrier):
    barrier.wait()
    asyncio.run(serve())


async def main():
    barrier = multiprocessing.Barrier(2, timeout=5)
    services = [multiprocessing.Process(target=service, args=(barrier,)) for _ in range(2)]
    for process in services:
        process.start()
    for process in services:
        await asyncio.to_thread(process.join)
    client = redis.from_url(os.environ["REDIS_URL"])
    counts = [int(count) for count in await client.mget([f"inv:{article}" for article in ARTICLES])]
    await client.aclose()
    assert counts == [2222, 2222, 2222], counts
    print("ok: 24 changes of three articles by two services add up")


if __name__ == "__main__":
    asyncio.run(main())
