"""A newsletter goes to each address once, although two senders work through overlapping lists.

SADD answers 1 to the sender that is first with an address, and only that one sends. Addresses stay in the set until the
issue is archived, when it is deleted as a whole: a record of what is done, not a lock.
Keys: set newsletter:<issue>:sent, list newsletter:<issue>:outbox.
"""
import asyncio
import multiprocessing
import os

import redis.asyncio as redis

SENT, OUTBOX = "newsletter:24:sent", "newsletter:24:outbox"


async def send_all(addresses):
    client = redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    gate = asyncio.Semaphore(8)

    async def send(address):
        async with gate:
            if await client.sadd(SENT, address) == 1:
                await client.rpush(OUTBOX, address)

    await asyncio.gather(*[send(address) for address in addresses])
    await client.aclose()


def sender(addresses, barrier):
    barrier.wait()
    asyncio.run(send_all(addresses))


async def main():
    customers = [f"customer-{n}@example.org" for n in range(60)]
    prospects = [f"customer-{n}@example.org" for n in range(30, 90)]
    barrier = multiprocessing.Barrier(2, timeout=5)
    senders = [multiprocessing.Process(target=sender, args=(part, barrier)) for part in (customers, prospects)]
    for process in senders:
        process.start()
    for process in senders:
        await asyncio.to_thread(process.join)

    client = redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    outbox = await client.lrange(OUTBOX, 0, -1)
    assert len(outbox) == 90 and len(set(outbox)) == 90, len(outbox)
    await client.delete(SENT)
    await client.aclose()
    print("ok: 90 people got the newsletter once each from two senders")


if __name__ == "__main__":
    asyncio.run(main())
