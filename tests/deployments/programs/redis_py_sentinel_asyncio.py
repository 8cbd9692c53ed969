"""redis-py's Sentinel for asyncio."""

import asyncio

from redis.asyncio.sentinel import Sentinel

from common import PROTOCOL, RELEASE, SERVICE, addresses, error_of_async, load_async, show


async def operations(sentinel, master, replica):
    answers = await asyncio.gather(*(master.set(f"key:{number}", number) for number in range(50)))
    show("set", answers == [True] * 50)
    show("incr", [await master.incr("counter"), await master.incrby("counter", 41)])
    show("hash", [await master.hset("hash", mapping={"a": 1, "b": 2}), await master.hgetall("hash")])
    show("wrong type", await error_of_async(master.lpush("hash", 1)))
    async with master.pipeline(transaction=True) as transaction:
        show("transaction", await transaction.set("a", 1).incr("a").execute())
    show("eval", await master.eval("return redis.call('GET', KEYS[1])", 1, "counter"))
    show("nothing to pop", await master.blpop(["queue"], timeout=0.2))
    popped = asyncio.create_task(master.blpop(["queue"], timeout=10))
    await asyncio.sleep(0.2)
    await master.rpush("queue", "element")
    show("pop", await popped)
    show("lock", [await master.set("lock", "token", nx=True, px=30000), await master.set("lock", "other", nx=True)])
    show("release", [await master.eval(RELEASE, 1, "lock", token) for token in ("other", "token")])
    show("wait", await master.wait(2, 10000))
    show("replica", [await replica.get("counter"), await error_of_async(replica.set("a", 1))])
    now = await sentinel.discover_master(SERVICE)
    replicas = await sentinel.discover_slaves(SERVICE)
    show("replicas", [len(set(replicas)), now in replicas])
    role = await master.role()
    show("role", [role[0], sorted((host, int(port)) for host, port, _ in role[2]) == sorted(replicas)])


async def main():
    sentinel = Sentinel(addresses("REDIS_SENTINELS"), socket_timeout=20, protocol=PROTOCOL, decode_responses=True)
    master = sentinel.master_for(SERVICE, socket_timeout=20, protocol=PROTOCOL, decode_responses=True)
    replica = sentinel.slave_for(SERVICE, socket_timeout=20, protocol=PROTOCOL, decode_responses=True)
    await operations(sentinel, master, replica)

    async def write(key, number):
        await master.rpush(key, number)
        await master.incr("n" + key)

    await load_async(write)
    show("get", [await master.get(f"key:{number}") for number in range(50)] == [str(number) for number in range(50)])
    show("values", [await master.get("counter"), await master.hgetall("hash"), await master.get("a")])
    show("role", (await master.role())[0])


asyncio.run(main())
