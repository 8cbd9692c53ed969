"""Two clients delete an expired lock and take it: both believe they hold it. With GETSET only one does."""

import os
from threading import Thread

from redis import Redis

NOW = 1700000000
test = Redis.from_url(os.environ["REDIS_URL"])


def with_del_and_setnx(client):
    assert int(client.get("lock.foo")) < NOW
    client.delete("lock.foo")
    return client.setnx("lock.foo", NOW + 60)


def with_getset(client):
    return int(client.get("lock.foo")) < NOW and int(client.getset("lock.foo", NOW + 60)) < NOW


def holders(take_over, command):
    """C1 and C2 have both seen that the lock is expired, then C1 goes all the way, then C2."""
    test.set("lock.foo", NOW - 1)
    clients = {name: Redis.from_url(os.environ["REDIS_URL"], client_name=name) for name in ["C1", "C2"]}
    holds = {}
    threads = {name: Thread(target=lambda n=name: holds.update({n: take_over(clients[n])})) for name in clients}
    for name in clients:
        test.execute_command(f"REDOUBLE GATE ADD {name} on {command} client {name}")
        threads[name].start()
        test.execute_command(f"REDOUBLE GATE WAIT {name}")
    for name in clients:
        test.execute_command(f"REDOUBLE GATE REMOVE {name}")
        threads[name].join()
    return [name for name in clients if holds[name]]


assert holders(with_del_and_setnx, "DEL") == ["C1", "C2"], "the documented race"
assert holders(with_getset, "GETSET") == ["C1"], "the documented remedy"
