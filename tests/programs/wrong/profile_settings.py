"""Two application servers save settings of one user.

Each loads the hash, changes one field of its copy and writes all fields back with HSET. The server that writes last
restores the old value of the field that the other one has changed: here a revoked consent is granted again.
Keys: user:<id>:settings. There is no lock. The lines marked ! are the evidence.
"""
import asyncio
import multiprocessing
import os

import redis.asyncio as redis

KEY = "user:1002:settings"
DEFAULTS = {"language": "de", "newsletter": "yes", "tracking": "granted"}


async def save(name, value, barrier):
    client = redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    settings = await client.hgetall(KEY)  # !
    await asyncio.to_thread(barrier.wait)
    settings[name] = value
    if name == "language":
        await asyncio.to_thread(barrier.wait)
    await client.hset(KEY, mapping=settings)  # !
    if name != "language":
        await asyncio.to_thread(barrier.wait)
    await client.aclose()


def application_server(name, value, barrier):
    asyncio.run(save(name, value, barrier))


async def main():
    client = redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    await client.hset(KEY, mapping=DEFAULTS)

    barrier = multiprocessing.Barrier(2, timeout=5)
    changes = [("tracking", "revoked"), ("language", "en")]
    servers = [multiprocessing.Process(target=application_server, args=(*change, barrier)) for change in changes]
    for server in servers:
        server.start()
    for server in servers:
        await asyncio.to_thread(server.join)

    settings = await client.hgetall(KEY)
    if settings["tracking"] != "revoked":
        print(f"damage: tracking was revoked and is {settings['tracking']} again")
    await client.aclose()


if __name__ == "__main__":
    asyncio.run(main())
