"""A theatre sells the seats of a row, which is one JSON document. Many visitors buy at once, each over a connection of its own.

There is no lock. Every sale watches the document before it reads it, and EXEC stores the new one only if nobody else
has stored one since; otherwise the visitor looks again.
"""
import asyncio
import json
import os

import redis.asyncio

ROW, VISITORS, SEATS = "theatre:hall-1:row-f", 5, 4


async def visitor(name, together):
    bought, again = [], 0
    async with redis.asyncio.Redis.from_url(
        os.environ["REDIS_URL"], decode_responses=True, single_connection_client=True
    ) as r:
        await together.wait()
        while len(bought) < SEATS:
            async with r.pipeline(transaction=True) as sale:
                await sale.watch(ROW)
                row = json.loads(await sale.get(ROW))
                seat = next(seat for seat, owner in row.items() if owner is None)
                row[seat] = name
                sale.multi()
                sale.set(ROW, json.dumps(row))
                try:
                    await sale.execute()
                    bought.append(seat)
                except redis.WatchError:
                    again += 1
    return name, bought, again


async def main():
    async with redis.asyncio.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True) as r:
        await r.set(ROW, json.dumps({f"F{number}": None for number in range(1, VISITORS * SEATS + 1)}))
        together = asyncio.Barrier(VISITORS)
        sales = await asyncio.wait_for(asyncio.gather(*(visitor(f"visitor-{n}", together) for n in range(VISITORS))), 15)
        sold = {seat: name for name, bought, _ in sales for seat in bought}
        good = json.loads(await r.get(ROW)) == sold and len(sold) == VISITORS * SEATS
        print(f"ok: {len(sold)} seats were sold once each" if good else f"damage: {len(sold)} seats for {VISITORS * SEATS} sales")


asyncio.run(main())
