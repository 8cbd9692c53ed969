"""Cook-book: several cooks save into the draft of one recipe.

Right: a cook saves by a script that compares the whole text with the one he has read, and writes only if it is the
same. Refused ones read again. No lock, and none is needed.
"""
import asyncio
import json
import os

import redis.asyncio as redis

DRAFT = "recipes:draft:bouillabaisse"
SAVE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then
    redis.call('SET', KEYS[1], ARGV[2])
    return 1
end
return 0
"""


async def cook(ingredient, all_have_read):
    r = redis.from_url(os.environ["REDIS_URL"], decode_responses=True, single_connection_client=True)
    save, refused = r.register_script(SAVE), 0
    async with r:
        while True:
            before = await r.get(DRAFT)
            if ingredient in json.loads(before):  # saved, and the answer got lost
                return refused
            await all_have_read()
            after = json.dumps(json.loads(before) + [ingredient])
            if await save(keys=[DRAFT], args=[before, after]):
                return refused
            refused += 1


async def main():
    ingredients = ["saffron", "fennel", "gurnard", "orange peel", "rouille"]
    r = redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    await r.set(DRAFT, json.dumps(["water"]))
    reads, go = 0, asyncio.Event()

    async def all_have_read():
        nonlocal reads
        reads += 1
        if reads >= len(ingredients):
            go.set()
        await go.wait()

    refused = await asyncio.gather(*(cook(name, all_have_read) for name in ingredients))
    draft = json.loads(await r.get(DRAFT))
    await r.aclose()
    assert sorted(draft) == sorted(["water", *ingredients]), draft
    print(f"ok: {len(ingredients)} cooks, {sum(refused)} refused saves, nothing is missing")


asyncio.run(main())
