"""Contacts are imported by one worker at a time. Locks have a client of their own, the data has a pool.

The lease is over before the slow worker writes. Its write goes over another connection than its lock, and it is the
first thing that the worker does after the lease: the contact that the next holder has imported is overwritten.
Keys: lock crm_import_mutex, data contacts (a JSON list). The lines marked ! are the evidence.
"""
import json
import os
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Event, Process

import redis

MUTEX, CONTACTS = "crm_import_mutex", "contacts"


class Mutex:
    """A lease with a token; one connection for all locks of the process."""

    def __init__(self, seconds):
        self.client = redis.Redis.from_url(os.environ["REDIS_URL"], single_connection_client=True)
        self.release_script = self.client.register_script(
            "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
        )
        self.milliseconds, self.token = int(seconds * 1000), secrets.token_hex(20)

    def __enter__(self):
        while not self.client.set(MUTEX, self.token, nx=True, px=self.milliseconds):  # !
            time.sleep(0.02)

    def __exit__(self, *_):
        self.release_script(keys=[MUTEX], args=[self.token])


def importer(address, holds, may_write):
    data = redis.Redis.from_url(os.environ["REDIS_URL"], max_connections=4)
    with ThreadPoolExecutor(2) as pool, Mutex(0.3):
        contacts = json.loads(pool.submit(data.get, CONTACTS).result() or "[]")  # !
        holds.set()
        may_write.wait(5)
        contacts.append(address)
        pool.submit(data.set, CONTACTS, json.dumps(contacts)).result()  # !


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    slow_holds, second_holds, at_once = Event(), Event(), Event()
    second_is_done = Event()
    at_once.set()
    slow = Process(target=importer, args=("ada@example.org", slow_holds, second_is_done))
    second = Process(target=importer, args=("bob@example.org", second_holds, at_once))
    slow.start()
    slow_holds.wait(5)
    second.start()
    second.join()
    second_is_done.set()
    slow.join()
    contacts = json.loads(client.get(CONTACTS))
    if len(contacts) < 2:
        print(f"damage: two contacts were imported, only {contacts[0]} is there")


if __name__ == "__main__":
    main()
