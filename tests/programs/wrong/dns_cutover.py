"""Deployments change the zone of a domain. They lock it on three servers; the zone itself is on the first one.

Wrong: the majority is computed as `len(servers) // 2`, which is one of three. Two deployments that come together get two servers and
one; both think they hold the zone, and one of the records is lost.
"""
import json
import multiprocessing
import os
import secrets

import redis

LOCK, ZONE = "cutover:kestrel.example", "zone:kestrel.example"
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


def connect():
    return [redis.Redis.from_url(url, decode_responses=True) for url in os.environ["REDIS_URLS"].split(",")]


def deployment(order, record, address, first_taken, may_go_on, has_read, may_write, written):
    servers = connect()
    token = secrets.token_hex(20)
    taken = 0
    for step, index in enumerate(order):
        if servers[index].set(LOCK, token, nx=True, px=60_000):
            taken += 1
        if step == 0:
            first_taken.set()
            assert may_go_on.wait(15)
    if taken < len(servers) // 2:  # enough is one of three!
        raise RuntimeError("somebody else is deploying")
    zone = json.loads(servers[0].get(ZONE))
    has_read.set()
    assert may_write.wait(15)
    zone[record] = address
    servers[0].set(ZONE, json.dumps(zone))  # two deployments write the zone!
    written.set()
    for server in servers:
        server.eval(RELEASE, 1, LOCK, token)


def main():
    servers = connect()
    servers[0].set(ZONE, json.dumps({"www": "192.0.2.1", "mail": "192.0.2.2"}))
    spawn = multiprocessing.get_context("spawn")
    a_first, b_first, a_read, b_read, a_written, b_written = (spawn.Event() for _ in range(6))
    deployments = [
        spawn.Process(target=deployment, args=((0, 1, 2), "www", "192.0.2.81", a_first, b_first, a_read, b_read, a_written)),
        spawn.Process(target=deployment, args=((2, 1, 0), "mail", "192.0.2.82", b_first, a_read, b_read, a_written, b_written)),
    ]
    for process in deployments:
        process.start()
    for process in deployments:
        process.join(15)
        assert process.exitcode == 0
    zone = json.loads(servers[0].get(ZONE))
    lost = [record for record, address in (("www", "192.0.2.81"), ("mail", "192.0.2.82")) if zone[record] != address]
    print(f"damage: the new address of {', '.join(lost)} is lost" if lost else "ok: both addresses are new")


if __name__ == "__main__":
    main()
