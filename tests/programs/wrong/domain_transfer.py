"""A registrar moves domains. Two workers of an asyncio service may want the same domain; a marker says who moves it.

Wrong: the marker is set with WATCH, MULTI and EXEC, but it is read before the WATCH. What another worker sets between the GET and
the WATCH is not seen: EXEC succeeds for both, and both rewrite the record of the domain.
"""
import asyncio
import json
import os

import redis.asyncio

MARKER, RECORD = "registrar:kestrel.example:mover", "registrar:kestrel.example:record"


def connect():
    return redis.asyncio.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


async def take(r, name, seen_free, may_watch):
    async with r.pipeline(transaction=True) as pipe:
        if await r.get(MARKER):
            return False
        seen_free.set()
        await may_watch.wait()
        await pipe.watch(MARKER)  # after the GET: the marker of the other worker is no reason to fail!
        pipe.multi()
        pipe.set(MARKER, name, ex=300)
        await pipe.execute()
        return True


async def mover(name, field, value, seen_free, may_watch, has_read, may_write, written):
    async with connect() as r:
        if not await take(r, name, seen_free, may_watch):
            raise RuntimeError("the domain was free at the beginning")
        record = json.loads(await r.get(RECORD))
        has_read.set()
        await may_write.wait()
        record[field] = value
        await r.set(RECORD, json.dumps(record))  # two movers, and one of the changes is gone!
        written.set()


async def main():
    async with connect() as r:
        await r.set(RECORD, json.dumps({"owner": "old", "nameserver": "ns1.old.example"}))
        first_free, second_free, first_read, second_read, first_written, second_written = (asyncio.Event() for _ in range(6))
        await asyncio.wait_for(
            asyncio.gather(
                mover("worker-1", "owner", "new", first_free, second_free, first_read, second_read, first_written),
                mover("worker-2", "nameserver", "ns1.new.example",
                      second_free, first_read, second_read, first_written, second_written),
            ),
            15,
        )
        record = json.loads(await r.get(RECORD))
        old = [field for field, value in record.items() if "new" not in value]
        print(f"damage: {', '.join(old)} is the old one again" if old else "ok: owner and nameserver are new")


asyncio.run(main())
