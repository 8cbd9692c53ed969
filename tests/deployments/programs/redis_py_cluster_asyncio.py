"""redis-py's RedisCluster for asyncio."""

import asyncio

from redis.asyncio.cluster import ClusterNode, RedisCluster

from common import PROTOCOL, RELEASE, addresses, error_of_async, is_known, load_async, show

nodes = [ClusterNode(host, port) for host, port in addresses("REDIS_CLUSTER_NODES")[:2]]


async def operations(client):
    answers = await asyncio.gather(*(client.set(f"key:{number}", number) for number in range(200)))
    show("set", answers == [True] * 200)
    answers = await asyncio.gather(*(client.get(f"key:{number}") for number in range(200)))
    show("get", answers == [str(number) for number in range(200)])
    show("incr", [await client.incr("counter"), await client.incrby("counter", 41), await client.append("text", "abc")])
    show("hash", [await client.hset("hash", mapping={"a": 1, "b": 2}), await client.hgetall("hash")])
    show("wrong type", await error_of_async(client.lpush("hash", 1)))
    show("mset", await client.mset_nonatomic({"m1": 1, "m2": 2, "m3": 3}))
    primary = client.get_primaries()[0]
    show("cross-slot", await error_of_async(client.execute_command("MSET", "a", 1, "b", 2, target_nodes=primary)))
    async with client.pipeline(transaction=True) as transaction:
        transaction.set("{tag}a", 1).incr("{tag}a").get("{tag}a")
        show("transaction", await transaction.execute())
    async with client.pipeline() as pipeline:
        for number in range(200):
            pipeline.set(f"pipe:{number}", number).get(f"pipe:{number}")
        answers = await pipeline.execute()
    show("pipeline", answers == [answer for number in range(200) for answer in (True, str(number))])
    show("eval", await client.eval("return {KEYS[1], ARGV[1], redis.call('GET', KEYS[1])}", 1, "counter", "x"))
    script = client.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    show("script", [await script(keys=["scripted"], args=[7]), await script(keys=["scripted"], args=[7])])
    show("script across", await error_of_async(client.eval("return 1", 2, "a", "b")))
    show("nothing to pop", await client.blpop(["queue"], timeout=0.2))
    popped = asyncio.create_task(client.blpop(["queue"], timeout=10))
    await asyncio.sleep(0.2)
    await client.rpush("queue", "element")
    show("pop", await popped)
    owner = client.get_node_from_key("counter")
    show("wait", await client.execute_command("WAIT", 1, 10000, target_nodes=owner))
    async with RedisCluster(startup_nodes=nodes, protocol=PROTOCOL, decode_responses=True, read_from_replicas=True) as reader:
        show("replicas", {await reader.get("counter") for _ in range(10)})
    show("lock", [await client.set("lock", "token", nx=True, px=30000), await client.set("lock", "other", nx=True)])
    show("release", [await client.eval(RELEASE, 1, "lock", token) for token in ("other", "token")])
    async with client.lock("guard", timeout=30) as guard:
        show("guard", [await guard.owned(), await client.exists("guard")])
    slots = await client.cluster_slots()
    given = {(server[0], server[1]) for of_range in slots.values() for server in [of_range["primary"], *of_range["replicas"]]}
    show("slots known", [len(given), all(is_known(*address) for address in given)])
    show("nodes known", all(is_known(node.host, node.port) for node in client.get_nodes()))


async def main():
    async with RedisCluster(startup_nodes=nodes, protocol=PROTOCOL, decode_responses=True) as client:
        await operations(client)

        async def write(key, number):
            await client.rpush(key, number)
            await client.incr("n" + key)

        await load_async(write)
        answers = await asyncio.gather(*(client.get(f"key:{number}") for number in range(200)))
        show("get", answers == [str(number) for number in range(200)])
        show("values", [await client.get("counter"), await client.hgetall("hash"), await client.get("scripted")])


asyncio.run(main())
