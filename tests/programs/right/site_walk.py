"""A crawler walks through some sites. Each page is fetched once, and from a site only one at a time.

A script adds a page to the set of known ones and to the frontier in one go. A page on its way is on the list of its task. The token of
a site is popped from a list by who fetches, does not run out, and comes back in the transaction that notes the page.
"""
import asyncio
import os

import redis.asyncio

SITES = ("a.example", "b.example")
LINKS = {f"{site}/{n}": [f"{site}/{(n * 2 + k) % 12}" for k in (1, 2)] + [f"{SITES[n % 2]}/{n}"]
         for site in SITES for n in range(12)}
FIND = """
if redis.call('SADD', KEYS[1], ARGV[1]) == 1 then redis.call('RPUSH', KEYS[2], ARGV[1]) end
return 1
"""
KNOWN, FRONTIER = "walk:known", "walk:frontier"


def connect():
    return redis.asyncio.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True, single_connection_client=True)


async def task(number, on_way):
    mine = f"walk:task:{number}"
    async with connect() as r:
        while True:
            on_way.add(number)
            page = await r.lmove(FRONTIER, mine, "LEFT", "RIGHT")
            if page is None:
                on_way.discard(number)
                if not on_way and not await r.exists(FRONTIER):
                    return
                await asyncio.sleep(0.005)
                continue
            site = page.split("/")[0]
            popped = await r.blpop(f"walk:{site}:token", timeout=15)
            assert popped, "the token of the site was not given back"
            token = popped[1]
            pages = int(await r.get(f"walk:{site}:pages"))
            for link in LINKS[page]:
                await r.eval(FIND, 2, KNOWN, FRONTIER, link)
            async with r.pipeline(transaction=True) as done:
                done.set(f"walk:{site}:pages", pages + 1)
                done.hincrby("walk:fetched", page, 1)
                done.lrem(mine, 1, page)
                done.rpush(f"walk:{site}:token", token)
                await done.execute()
            on_way.discard(number)


async def main():
    async with connect() as r:
        for site in SITES:
            await r.set(f"walk:{site}:pages", 0)
            await r.rpush(f"walk:{site}:token", "token")
            await r.eval(FIND, 2, KNOWN, FRONTIER, f"{site}/0")
        on_way = set()
        await asyncio.wait_for(asyncio.gather(*(task(number, on_way) for number in range(4))), 18)
        fetched = await r.hgetall("walk:fetched")
        pages = sum([int(await r.get(f"walk:{site}:pages")) for site in SITES])
        known = await r.smembers(KNOWN)
        good = set(fetched) == known and set(fetched.values()) == {"1"} and pages == len(fetched)
        print(f"ok: {pages} pages were fetched once each" if good else f"damage: {len(fetched)} pages, {pages} noted")


asyncio.run(main())
