"""A removal firm keeps the packing list of a move in a Redis list. Two packers tick off what is in the van.

Wrong: a packer locks the article, not the list. The locks are sound, each with a token, an expiry and a release that compares,
but they have different names, and both packers rewrite the same list: LRANGE, remove in Python, DEL and RPUSH.
"""
import asyncio
import os
import secrets

import redis.asyncio

RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
MOVE = "move:" + secrets.token_hex(5)


async def pack(article, has_read, may_write, written):
    async with redis.asyncio.Redis.from_url(
        os.environ["REDIS_URL"], decode_responses=True, single_connection_client=True
    ) as r:
        token = secrets.token_urlsafe(16)
        assert await r.set(f"{MOVE}:packing:{article}", token, nx=True, px=60_000)
        left = await r.lrange(f"{MOVE}:list", 0, -1)
        has_read.set()
        await may_write.wait()
        left.remove(article)
        async with r.pipeline(transaction=True) as change:
            change.delete(f"{MOVE}:list")
            change.rpush(f"{MOVE}:list", *left)  # the list of before: the other article is on it again!
            await change.execute()
        written.set()
        assert await r.eval(RELEASE, 1, f"{MOVE}:packing:{article}", token) == 1


async def main():
    async with redis.asyncio.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True) as r:
        await r.rpush(f"{MOVE}:list", "piano", "lamp", "sofa", "books")
        lamp_read, sofa_read, lamp_written, sofa_written = (asyncio.Event() for _ in range(4))
        await asyncio.wait_for(
            asyncio.gather(
                pack("lamp", lamp_read, sofa_read, lamp_written),
                pack("sofa", sofa_read, lamp_written, sofa_written),
            ),
            15,
        )
        left = await r.lrange(f"{MOVE}:list", 0, -1)
        again = [article for article in ("lamp", "sofa") if article in left]
        print(f"damage: packed, and on the list again: {', '.join(again)}" if again else "ok: the list is right")


asyncio.run(main())
