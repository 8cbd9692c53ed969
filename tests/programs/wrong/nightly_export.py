"""A decorator that keeps an export from running twice.

The decorator looks with GET whether somebody runs the function, and writes its own name with SET and an expiry if not.
Two hosts that look at the same moment both run it; the one that wrote first is not even in the key any more.
Keys: lock single:<function>, data export:rows. The lines marked ! are the evidence.
"""
import functools
import os
import sys
from multiprocessing import Pipe, Process

import redis


def single_run(pause):
    def decorate(function):
        @functools.wraps(function)
        def guarded(client, host):
            key = f"single:{function.__name__}"
            if client.get(key) is not None:  # !
                return None
            pause()
            client.set(key, host, ex=300)  # !
            try:
                return function(client, host)
            finally:
                if client.get(key) == host.encode():
                    client.delete(key)

        return guarded

    return decorate


def host(name, link):
    client = redis.Redis.from_url(os.environ["REDIS_URL"])

    def pause():
        link.send("looked")
        link.recv()

    @single_run(pause)
    def nightly_export(client, name):
        link.send("exporting")
        link.recv()
        client.incrby("export:rows", 250)
        return name

    nightly_export(client, name)
    link.send("done")


def main():
    links = []
    for name in ("batch-1", "batch-2"):
        here, there = Pipe()
        Process(target=host, args=(name, there), daemon=True).start()
        links.append(here)
    for expected in ("looked", "exporting"):
        for link in links:
            assert link.recv() == expected
        for link in links:
            link.send("go")
    for link in links:
        assert link.recv() == "done"
    rows = int(redis.Redis.from_url(os.environ["REDIS_URL"]).get("export:rows"))
    if rows != 250:
        print(f"damage: 250 rows were due and {rows} were exported, both hosts were inside at once")


if __name__ == "__main__":
    sys.exit(main())
