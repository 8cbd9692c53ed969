"""The credit of a tenant is kept in the second data store. The sites take the tenant's lock, each in the store that is near to it.

Both do it as documented, with a token, an expiry and a script; but the locks are two. Both read the credit, and one booking is lost.
Keys: locks tenant:<name>:booking in either store, data tenant:<name>:credit in the second. The lines marked ! are the evidence.
"""
import os
import subprocess
import sys

import redis

LOCK, CREDIT = "tenant:acme:booking", "tenant:acme:credit"


def site(near, booked):
    near_by, main_store = (redis.Redis.from_url(os.environ["REDIS_URLS"].split(",")[number]) for number in (int(near), 1))
    with near_by.lock(LOCK, timeout=60):  # !
        credit = int(main_store.get(CREDIT))  # !
        print("read", flush=True)
        sys.stdin.readline()
        main_store.set(CREDIT, credit - int(booked))  # !


def start(*words):
    command = [sys.executable, __file__, *map(str, words)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    return process


def main():
    store = redis.Redis.from_url(os.environ["REDIS_URLS"].split(",")[1])
    store.set(CREDIT, 500)
    sites = [start(0, 120), start(1, 35)]
    for process in sites:
        process.communicate("go\n")
    credit = int(store.get(CREDIT))
    if credit != 345:
        print(f"damage: 155 of 500 were booked, and the credit is {credit}")


if __name__ == "__main__":
    site(*sys.argv[1:]) if sys.argv[1:] else main()
