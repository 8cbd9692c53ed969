"""Planners of a hospital edit the roster of a ward. The editor is the field `by` of a hash, taken with HSETNX and PEXPIRE.

Wrong: a renewal is HSET and PEXPIRE. It does not look whether the hash is still there or whose it is, so a planner that
was away for longer than its lease takes the roster anew, under the hands of the next one.
"""
import asyncio
import json
import os
import secrets

import redis.asyncio

WARD = "clinic:" + secrets.token_hex(4) + ":ward:5"
EDITOR, ROSTER = f"{WARD}:editor", f"{WARD}:roster"


def connect():
    return redis.asyncio.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True, single_connection_client=True)


async def take(r, name, lease):
    if not await r.hsetnx(EDITOR, "by", name):
        return False
    await r.pexpire(EDITOR, lease)
    return True


async def renew(r, name, lease):
    await r.hset(EDITOR, "by", name)
    await r.pexpire(EDITOR, lease)


async def give_back(r, name):
    if await r.hget(EDITOR, "by") == name:
        await r.delete(EDITOR)


async def planner_at_lunch(taken, late_has_read, back):
    async with connect() as r:
        assert await take(r, "planner-1", 300)
        taken.set()
        await late_has_read.wait()
        await renew(r, "planner-1", 60_000)  # the lease is over and planner 2 has the roster!
        roster = json.loads(await r.get(ROSTER))
        roster["monday"] = "Anke"
        await r.set(ROSTER, json.dumps(roster))  # two edit at once!
        await give_back(r, "planner-1")
        back.set()


async def planner_in_time(taken, late_has_read, back):
    await taken.wait()
    async with connect() as r:
        while not await take(r, "planner-2", 60_000):
            await asyncio.sleep(0.02)
        roster = json.loads(await r.get(ROSTER))
        late_has_read.set()
        await back.wait()
        roster["friday"] = "Birte"
        await r.set(ROSTER, json.dumps(roster))  # from before Monday was changed!
        await give_back(r, "planner-2")


async def main():
    async with connect() as r:
        await r.set(ROSTER, json.dumps({"monday": "-", "friday": "-"}))
        events = [asyncio.Event() for _ in range(3)]
        await asyncio.wait_for(asyncio.gather(planner_at_lunch(*events), planner_in_time(*events)), 15)
        roster = json.loads(await r.get(ROSTER))
        open_days = [day for day, who in roster.items() if who == "-"]
        print(f"damage: nobody on {', '.join(open_days)}, though it was saved" if open_days else "ok: both days are planned")


asyncio.run(main())
