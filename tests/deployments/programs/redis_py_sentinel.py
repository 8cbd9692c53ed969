"""redis-py's Sentinel."""

import threading
import time

from redis.sentinel import MasterNotFoundError, Sentinel

from common import PROTOCOL, RELEASE, SERVICE, addresses, error_of, load, show

sentinel = Sentinel(addresses("REDIS_SENTINELS"), socket_timeout=20, protocol=PROTOCOL, decode_responses=True)
master = sentinel.master_for(SERVICE, socket_timeout=20, protocol=PROTOCOL, decode_responses=True)
replica = sentinel.slave_for(SERVICE, socket_timeout=20, protocol=PROTOCOL, decode_responses=True)


def operations():
    show("set", [master.set(f"key:{number}", number) for number in range(50)] == [True] * 50)
    show("incr", [master.incr("counter"), master.incrby("counter", 41), master.append("text", "abc")])
    show("hash", [master.hset("hash", mapping={"a": 1, "b": 2}), master.hgetall("hash")])
    show("wrong type", error_of(lambda: master.lpush("hash", 1)))
    show("mset", [master.mset({"m1": 1, "m2": 2}), master.mget("m1", "m2", "none")])
    with master.pipeline(transaction=True) as transaction:
        transaction.set("a", 1).incr("a").lrange("none", 0, -1)
        show("transaction", transaction.execute())
    pipeline = master.pipeline(transaction=False)
    for number in range(200):
        pipeline.set(f"pipe:{number}", number).get(f"pipe:{number}")
    show("pipeline", pipeline.execute() == [answer for number in range(200) for answer in (True, str(number))])
    show("eval", master.eval("return {KEYS[1], ARGV[1], redis.call('GET', KEYS[1])}", 1, "counter", "x"))
    script = master.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    show("script", [script(keys=["scripted"], args=[7]), script(keys=["scripted"], args=[7])])
    show("nothing to pop", master.blpop(["queue"], timeout=0.2))
    pusher = threading.Timer(0.2, lambda: master.rpush("queue", "element"))
    pusher.start()
    show("pop", master.blpop(["queue"], timeout=10))
    subscriber = master.pubsub()
    subscriber.subscribe("news")
    show("subscribed", subscriber.get_message(timeout=10)["type"])
    show("publish", master.publish("news", "hello"))
    show("message", subscriber.get_message(timeout=10)["data"])
    subscriber.close()
    show("lock", [master.set("lock", "token", nx=True, px=30000), master.set("lock", "other", nx=True, px=30000)])
    show("release", [master.eval(RELEASE, 1, "lock", "other"), master.eval(RELEASE, 1, "lock", "token")])
    with master.lock("guard", timeout=30) as guard:
        show("guard", guard.owned())
    show("wait", master.wait(2, 10000))
    show("replica", [replica.get("counter"), error_of(lambda: replica.set("a", 1))])


def topology():
    now = sentinel.discover_master(SERVICE)
    replicas = sentinel.discover_slaves(SERVICE)
    show("replicas", [len(replicas), len(set(replicas)), now in replicas])
    # Every way to ask names the same addresses.
    answers = {sentinel.sentinels[0].execute_command("SENTINEL GET-MASTER-ADDR-BY-NAME", SERVICE)}
    for one in sentinel.sentinels:
        state = one.sentinel_master(SERVICE)
        answers |= {(state["ip"], state["port"])}
        show("state", [state["num-slaves"], state["num-other-sentinels"], state["is_master"], state["quorum"]])
        others = {(other["ip"], other["port"]) for other in one.sentinel_sentinels(SERVICE)}
        known = set(addresses("REDIS_SENTINELS"))
        show("others", [len(others), others <= known])
        of_replicas = one.sentinel_slaves(SERVICE)
        show("its replicas", sorted((entry["ip"], entry["port"]) for entry in of_replicas) == sorted(replicas))
        show("their master", {(entry["master-host"], entry["master-port"]) for entry in of_replicas} == {now})
    show("one master", answers == {now})
    role = master.role()
    show("role", [role[0], sorted((host, int(port)) for host, port, _ in role[2]) == sorted(replicas)])
    role = replica.role()
    show("role of a replica", [role[0], (role[1], role[2]) == now, role[3]])
    known = replica.info("replication")
    show("master of a replica", (known["master_host"], known["master_port"]) == now)
    known = master.info("replication")
    listed = sorted((known[name]["ip"], known[name]["port"]) for name in ("slave0", "slave1"))
    show("replicas of the master", listed == sorted(replicas))
    show("unknown", error_of(lambda: sentinel.discover_master("nobody"))[0] == MasterNotFoundError.__name__)


def write(key, number):
    master.rpush(key, number)
    master.incr("n" + key)


operations()
topology()
before = sentinel.discover_master(SERVICE)
events = sentinel.sentinels[0].pubsub()
events.subscribe("+switch-master")
load(write)
now = sentinel.discover_master(SERVICE)
switches = []
for _ in range(100):
    message = events.get_message(timeout=0.2)
    if message and message["type"] == "message":
        name, old_host, old_port, new_host, new_port = message["data"].split()
        switches.append(((old_host, int(old_port)), (new_host, int(new_port))))
    if len(switches) == 2:
        break
show("switches", len(switches))
show("switched", [switches[0][0] == before, switches[0][1] == switches[1][0], switches[1][1] == now])
show("get", [master.get(f"key:{number}") for number in range(50)] == [str(number) for number in range(50)])
show("values", [master.get("counter"), master.hgetall("hash"), master.get("a"), master.get("scripted")])
show("role", master.role()[0])
