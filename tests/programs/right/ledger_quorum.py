"""A ledger on the first of three servers, written under a lock that a majority of them must grant, in asyncio.

Who gets less than two of three gives back what it has got, waits a moment of its own length and tries again.
Keys: lock ledger:quorum on each server, data ledger:entries on the first.
"""
import asyncio
import os
import random
import sys
import uuid

import redis.asyncio as redis

LOCK, ENTRIES = "ledger:quorum", "ledger:entries"
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


class Quorum:
    def __init__(self, servers):
        self.servers = servers

    async def acquire(self, lease=60.0):
        clock = asyncio.get_running_loop().time
        while True:
            token, begin = uuid.uuid4().hex, clock()
            granted = await asyncio.gather(*[server.set(LOCK, token, nx=True, px=int(lease * 1000)) for server in self.servers])
            if sum(map(bool, granted)) > len(self.servers) // 2 and clock() - begin < lease / 2:
                return token
            await self.release(token)
            await asyncio.sleep(random.uniform(0.005, 0.05))

    async def release(self, token):
        await asyncio.gather(*[server.eval(RELEASE, 1, LOCK, token) for server in self.servers])


async def clerk(name):
    servers = [redis.from_url(url, decode_responses=True) for url in os.environ["REDIS_URLS"].split(",")]
    await asyncio.gather(*[server.ping() for server in servers])
    quorum = Quorum(servers)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    for number in range(5):
        token = await quorum.acquire()
        entries = await servers[0].get(ENTRIES) or ""
        await servers[0].set(ENTRIES, f"{entries}{name}{number} ")
        await quorum.release(token)
    await asyncio.gather(*[server.aclose() for server in servers])


async def main():
    pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
    clerks = [await asyncio.create_subprocess_exec(sys.executable, __file__, name, **pipes) for name in "xyz"]
    for each in clerks:
        await each.stdout.readline()
    await asyncio.gather(*[each.communicate(b"go\n") for each in clerks])
    async with redis.from_url(os.environ["REDIS_URLS"].split(",")[0], decode_responses=True) as client:
        entries = (await client.get(ENTRIES)).split()
    assert sorted(entries) == [f"{name}{number}" for name in "xyz" for number in range(5)], entries
    print("ok: three clerks made five entries each, and none is missing")


if __name__ == "__main__":
    asyncio.run(clerk(*sys.argv[1:]) if sys.argv[1:] else main())
