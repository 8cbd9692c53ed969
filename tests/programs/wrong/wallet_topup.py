"""Top-ups of a prepaid wallet inside WATCH, MULTI and EXEC.

The code watches wallet:<id>:balance, the name of an earlier release; the balance lives in the hash wallet:<id> today.
No EXEC ever fails, and two top-ups that read the same balance write over each other.
Keys: hash wallet:<id>, field balance. The lines marked ! are the evidence.
"""
import asyncio
import multiprocessing
import os

import redis.asyncio as aioredis
from redis.exceptions import WatchError


async def top_up(url, wallet, cents, link):
    client = aioredis.from_url(url)
    async with client.pipeline(transaction=True) as pipe:
        for _ in range(3):
            try:
                await pipe.watch(f"wallet:{wallet}:balance")  # !
                balance = int(await pipe.hget(f"wallet:{wallet}", "balance"))  # !
                link.send("read")
                await asyncio.to_thread(link.recv)
                pipe.multi()
                pipe.hset(f"wallet:{wallet}", "balance", balance + cents)
                pipe.hincrby(f"wallet:{wallet}", "topups", 1)
                await pipe.execute()  # !
                break
            except WatchError:
                continue
    link.send("done")
    await client.aclose()


def serve(url, wallet, cents, link):
    asyncio.run(top_up(url, wallet, cents, link))


async def main():
    url = os.environ["REDIS_URL"]
    client = aioredis.from_url(url, decode_responses=True)
    await client.hset("wallet:w9", mapping={"balance": 0, "topups": 0})

    links = []
    for cents in (1500, 2000):
        here, there = multiprocessing.Pipe()
        multiprocessing.Process(target=serve, args=(url, "w9", cents, there), daemon=True).start()
        links.append(here)
    for link in links:
        assert link.recv() == "read"
    for link in links:
        link.send("write")
        assert link.recv() == "done"

    wallet = await client.hgetall("wallet:w9")
    if wallet["balance"] != "3500":
        print(f"damage: {wallet['topups']} top-ups of 3500 cents in all, the wallet has {wallet['balance']}")
    await client.aclose()


if __name__ == "__main__":
    asyncio.run(main())
