"""Settings of a product: each service puts the defaults there when it starts, an administrator changes them.

Defaults are written with SET NX, so that no start overwrites what an administrator has chosen; the administrator writes
with a plain SET, and resets a setting by DEL. The last word of the one administrator counts, so nothing can be lost.
Keys: settings:<name>.
"""
import multiprocessing
import os

import redis

DEFAULTS = {"settings:page_size": "50", "settings:theme": "light", "settings:beta": "off"}


def service(barrier, seen):
    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    for name, value in DEFAULTS.items():
        client.set(name, value, nx=True)
    barrier.wait()
    barrier.wait()  # the administrator is at work
    for name, value in DEFAULTS.items():  # the service restarts
        client.setnx(name, value)
    seen.put(tuple(client.mget(list(DEFAULTS))))


def administrator(barrier):
    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    barrier.wait()
    client.set("settings:theme", "dark")
    client.set("settings:beta", "on")
    client.delete("settings:beta")
    barrier.wait()


def main():
    barrier, seen = multiprocessing.Barrier(4, timeout=5), multiprocessing.Queue()
    parties = [multiprocessing.Process(target=service, args=(barrier, seen)) for _ in range(3)]
    parties.append(multiprocessing.Process(target=administrator, args=(barrier,)))
    for process in parties:
        process.start()
    views = {seen.get(timeout=5) for _ in range(3)}
    for process in parties:
        process.join()
    assert views == {("50", "dark", "off")}, views
    print("ok: three services see the choice of the administrator and the defaults for the rest")


if __name__ == "__main__":
    main()
