"""The folders of a mailbox are a hash that asyncio services load, change and store whole, under the lock of redis-py.

Tasks of one service and of two services contend. The lock, the hash and the release go over any connection of the pool.
Keys: locks mailbox:<user>:writer, data mailbox:<user>:folders.
"""
import asyncio
import os
import sys

import redis.asyncio as redis

WRITER, FOLDERS = "mailbox:ines:writer", "mailbox:ines:folders"


async def add(client, name):
    lock = client.lock(WRITER, timeout=60, sleep=0.01, blocking_timeout=30)
    async with lock:
        folders = await client.hgetall(FOLDERS)
        assert await lock.owned()
        folders[name] = str(len(folders) + 1)
        async with client.pipeline(transaction=True) as pipe:
            await pipe.delete(FOLDERS).hset(FOLDERS, mapping=folders).execute()


async def service(prefix):
    async with redis.from_url(os.environ["REDIS_URL"], decode_responses=True, max_connections=6) as client:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await asyncio.gather(*[add(client, f"{prefix}-{number}") for number in range(5)])


async def main():
    pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
    services = [await asyncio.create_subprocess_exec(sys.executable, __file__, name, **pipes) for name in ("work", "home")]
    for each in services:
        await each.stdout.readline()
    await asyncio.gather(*[each.communicate(b"go\n") for each in services])
    async with redis.from_url(os.environ["REDIS_URL"], decode_responses=True) as client:
        folders = await client.hgetall(FOLDERS)
    assert sorted(folders.values(), key=int) == [str(number) for number in range(1, 11)], folders
    print("ok: ten folders were added by two services, and each has a number of its own")


if __name__ == "__main__":
    asyncio.run(service(*sys.argv[1:]) if sys.argv[1:] else main())
