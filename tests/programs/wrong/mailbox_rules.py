"""The rules of a mailbox are a hash. The web site and the phone's service load it, change it and store it whole.

Both are asyncio services of their own. Each replaces the hash in one transaction, so it is never half written; but the
rule that the other one added after the load is gone.
Keys: data mailbox:<user>:rules. The lines marked ! are the evidence.
"""
import asyncio
import os
import sys

import redis.asyncio as redis

RULES = "mailbox:ines:rules"


async def service(rule, folder):
    async with redis.from_url(os.environ["REDIS_URL"], decode_responses=True) as client:
        rules = await client.hgetall(RULES)  # !
        print("loaded", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        rules[rule] = folder
        async with client.pipeline(transaction=True) as pipe:
            await pipe.delete(RULES).hset(RULES, mapping=rules).execute()  # !


async def start(*words):
    return await asyncio.create_subprocess_exec(
        sys.executable, __file__, *words, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )


async def main():
    async with redis.from_url(os.environ["REDIS_URL"], decode_responses=True) as client:
        await client.hset(RULES, mapping={"from:bank": "money", "list:news": "later"})
        site, phone = await start("from:school", "family"), await start("from:shop", "orders")
        for program in (site, phone):
            await program.stdout.readline()
        for program in (site, phone):
            await program.communicate(b"store\n")
        rules = await client.hgetall(RULES)
    if len(rules) < 4:
        print(f"damage: two rules were added to two, and there are {len(rules)}: {', '.join(sorted(rules))}")


if __name__ == "__main__":
    asyncio.run(service(*sys.argv[1:]) if sys.argv[1:] else main())
