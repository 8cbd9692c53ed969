"""Deposits and withdrawals of one account, each behind a lock.

Both services take a lock, with a token, an expiry and a release that compares. But each names the lock after its own
operation, so the two locks do not exclude each other while both change the same balance.
Keys: locks deposit-lock:<account> and withdraw-lock:<account>, data balance:<account>. The lines marked ! are the evidence.
"""
import multiprocessing
import os
import uuid
from contextlib import contextmanager

import redis

RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


@contextmanager
def locked(client, name):
    token = str(uuid.uuid4())
    if not client.set(name, token, nx=True, px=10_000):  # !
        raise RuntimeError(f"{name} is taken")
    try:
        yield
    finally:
        client.eval(RELEASE, 1, name, token)


def deposit(account, amount, barrier):
    client = redis.Redis.from_url(os.environ["REDIS_URL"], client_name="deposits")
    with locked(client, f"deposit-lock:{account}"):
        balance = int(client.get(f"balance:{account}"))  # !
        barrier.wait()
        client.set(f"balance:{account}", balance + amount)  # !
    barrier.wait()


def withdraw(account, amount, barrier):
    client = redis.Redis.from_url(os.environ["REDIS_URL"], client_name="withdrawals")
    with locked(client, f"withdraw-lock:{account}"):
        balance = int(client.get(f"balance:{account}"))  # !
        barrier.wait()
        barrier.wait()
        client.set(f"balance:{account}", balance - amount)  # !


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    client.set("balance:acc-17", 500)
    barrier = multiprocessing.Barrier(2, timeout=5)
    services = [
        multiprocessing.Process(target=deposit, args=("acc-17", 200, barrier)),
        multiprocessing.Process(target=withdraw, args=("acc-17", 50, barrier)),
    ]
    for service in services:
        service.start()
    for service in services:
        service.join()
    balance = int(client.get("balance:acc-17"))
    if balance != 650:
        print(f"damage: 500 + 200 - 50 should be 650, the balance is {balance}")


if __name__ == "__main__":
    main()
