"""redis-py's RedisCluster."""

import threading

import redis
from redis.cluster import ClusterNode, RedisCluster

from common import PROTOCOL, RELEASE, addresses, error_of, is_known, load, show

nodes = [ClusterNode(host, port) for host, port in addresses("REDIS_CLUSTER_NODES")[:2]]
client = RedisCluster(startup_nodes=nodes, protocol=PROTOCOL, decode_responses=True)


def operations():
    show("set", [client.set(f"key:{number}", number) for number in range(50)] == [True] * 50)
    show("get", [client.get(f"key:{number}") for number in range(50)] == [str(number) for number in range(50)])
    show("incr", [client.incr("counter"), client.incrby("counter", 41), client.append("text", "abc")])
    show("hash", [client.hset("hash", mapping={"a": 1, "b": 2}), client.hgetall("hash"), client.hincrby("hash", "a", 5)])
    show("wrong type", error_of(lambda: client.lpush("hash", 1)))
    show("mset", [client.mset_nonatomic({"m1": 1, "m2": 2, "m3": 3}), client.mget_nonatomic("m1", "m2", "m3")])
    primary = client.get_primaries()[0]
    show("cross-slot", error_of(lambda: client.execute_command("MSET", "a", 1, "b", 2, target_nodes=primary)))
    show("cross-slot here", error_of(lambda: client.mset({"a": 1, "b": 2})))
    show("delete", client.delete("m1", "m2", "m3", "none"))

    with client.pipeline(transaction=True) as transaction:
        transaction.set("{tag}a", 1)
        transaction.incr("{tag}a")
        transaction.lrange("{tag}none", 0, -1)
        show("transaction", transaction.execute())
    with client.pipeline(transaction=True) as transaction:
        transaction.set("{tag}a", "x")
        transaction.incr("{tag}a")
        show("failing transaction", error_of(transaction.execute))
    pipeline = client.pipeline()
    for number in range(200):
        pipeline.set(f"pipe:{number}", number)
        pipeline.get(f"pipe:{number}")
    show("pipeline", pipeline.execute() == [answer for number in range(200) for answer in (True, str(number))])
    pipeline = client.pipeline()
    pipeline.set("text", "abc").incr("text").get("text")
    show("failing pipeline", pipeline.execute(raise_on_error=False).__repr__().replace("ResponseError", "error"))

    show("eval", client.eval("return {KEYS[1], ARGV[1], redis.call('GET', KEYS[1])}", 1, "counter", "x"))
    script = client.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    show("script", [script(keys=["scripted"], args=[7]), script(keys=["scripted"], args=[7])])
    show("script elsewhere", error_of(lambda: client.eval("return redis.call('GET', 'key:' .. ARGV[1])", 1, "a", "b")))
    show("script across", error_of(lambda: client.eval("return 1", 2, "a", "b")))
    show("script exists", client.script_exists(script.sha, "0" * 40))

    show("nothing to pop", client.blpop(["queue"], timeout=0.2))
    pusher = threading.Timer(0.2, lambda: RedisCluster(startup_nodes=nodes).rpush("queue", "element"))
    pusher.start()
    show("pop", client.blpop(["queue"], timeout=10))
    pusher.join()

    subscriber = client.pubsub()
    subscriber.subscribe("news")
    subscriber.psubscribe("n?ws")
    show("subscribed", [subscriber.get_message(timeout=10)["type"] for _ in range(2)])
    client.publish("news", "hello")
    messages = [subscriber.get_message(timeout=10) for _ in range(2)]
    show("messages", sorted((message["type"], message["data"]) for message in messages))
    subscriber.close()
    sharded = client.pubsub()
    sharded.ssubscribe("shard")
    show("sharded", [sharded.get_sharded_message(timeout=10) for _ in range(2)][0])
    show("spublish", client.spublish("shard", "hello"))
    waited = (sharded.get_sharded_message(timeout=10) for _ in range(10))
    show("sharded message", next(message for message in waited if message))
    sharded.close()

    show("wait", client.execute_command("WAIT", 1, 10000, target_nodes=client.get_node_from_key("counter")))
    reader = RedisCluster(startup_nodes=nodes, protocol=PROTOCOL, decode_responses=True, read_from_replicas=True)
    client.execute_command("WAIT", 1, 10000, target_nodes=RedisCluster.PRIMARIES)
    show("replicas", {reader.get("counter") for _ in range(10)})
    reader.close()

    show("lock", [client.set("lock", "token", nx=True, px=30000), client.set("lock", "other", nx=True, px=30000)])
    show("pttl", 0 < client.pttl("lock") <= 30000)
    show("release", [client.eval(RELEASE, 1, "lock", "other"), client.eval(RELEASE, 1, "lock", "token")])
    with client.lock("guard", timeout=30) as guard:
        show("guard", [guard.owned(), client.exists("guard")])
    show("guard after", client.exists("guard"))


def topology():
    slots = client.cluster_slots()
    show("slots", len(slots) > 0 and sum(last - first + 1 for first, last in slots))
    given = {(server[0], server[1]) for of_range in slots.values() for server in [of_range["primary"], *of_range["replicas"]]}
    show("slots known", [len(given), all(is_known(*address) for address in given)])
    lines = client.cluster_nodes()
    show("nodes known", [len(lines), all(is_known(*address.rsplit(":", 1)) for address in lines)])
    shards = client.execute_command("CLUSTER SHARDS", target_nodes=RedisCluster.RANDOM)
    show("shards", len(shards))
    show("info", [client.cluster_info()[field] for field in ("cluster_state", "cluster_slots_assigned", "cluster_size")])
    show("keyslot", [client.cluster_keyslot("counter"), client.cluster_countkeysinslot(client.keyslot("counter"))])
    for node in client.get_nodes():
        myself = node.redis_connection.execute_command("CLUSTER MYID")
        line = client.execute_command("CLUSTER NODES", target_nodes=node)
        own = [address for address, fields in line.items() if "myself" in fields["flags"]]
        if own != [node.name] or line[own[0]]["node_id"] != myself:
            show("another self", [node.name, own, myself])
    others = [node for node in client.get_primaries() if node != client.get_node_from_key("counter")]
    for node in others:
        # Asked for a key of another node, every node names that one.
        moved = error_of(lambda: redis.Redis(node.host, node.port, protocol=PROTOCOL).execute_command("GET", "counter"))
        _, slot, address = moved[1].split() if moved[1].startswith("MOVED") else ("", *moved[1].split())
        show("moved", [moved[0], slot, address == client.get_node_from_key("counter").name])


def write(key, number):
    client.rpush(key, number)
    client.incr("n" + key)


operations()
topology()
load(write)
show("info", client.cluster_info()["cluster_state"])
show("get", [client.get(f"key:{number}") for number in range(50)] == [str(number) for number in range(50)])
show("values", [client.get("counter"), client.hgetall("hash"), client.get("{tag}a"), client.get("scripted")])
client.close()
