"""Operators throw switches of a shop on several consoles. The last one decides, and each change has a line in the journal.

A console shows the switches first (HGETALL), but what it sets comes from the operator and not from what it has read.
Switch and line of the journal are one transaction, so the last line about a switch is always its state.
"""
import asyncio
import os
import random

import redis.asyncio

SWITCHES, CHANGES = ("checkout", "search", "reviews"), 12


async def console(name, seed):
    choice = random.Random(seed)
    async with redis.asyncio.Redis.from_url(
        os.environ["REDIS_URL"], decode_responses=True, single_connection_client=True
    ) as r:
        for _ in range(CHANGES):
            await r.hgetall("shop:switches")
            switch, state = choice.choice(SWITCHES), choice.choice(("on", "off"))
            async with r.pipeline(transaction=True) as change:
                change.hset("shop:switches", switch, state)
                change.rpush("shop:switches:journal", f"{name} {switch} {state}")
                await change.execute()


async def main():
    async with redis.asyncio.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True) as r:
        await r.hset("shop:switches", mapping={switch: "on" for switch in SWITCHES})
        await asyncio.gather(*(console(f"console-{number}", number) for number in range(4)))
        journal = await r.lrange("shop:switches:journal", 0, -1)
        told = {switch: "on" for switch in SWITCHES}
        for line in journal:
            _, switch, state = line.split()
            told[switch] = state
        states = await r.hgetall("shop:switches")
        good = told == states and len(journal) == 4 * CHANGES
        print(f"ok: {len(journal)} changes lead to the state of the switches" if good else f"damage: {states}, journal {told}")


asyncio.run(main())
