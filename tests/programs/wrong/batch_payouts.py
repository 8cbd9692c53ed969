"""Payouts of a day are numbered and stored by one worker at a time; a worker can be suspended at any moment.

The worker takes the documented lock, and its process is stopped (a migrating virtual machine, a long collection) for longer
than the lease. When it runs again it does not know, and stores its batch over the one of the worker that came meanwhile.
Keys: lock payouts:lock, data payouts:last and payouts:batch:<n>. The lines marked ! are the evidence.
"""
import multiprocessing
import os
import secrets
import signal
import time

import redis

LOCK, LEASE_MS = "payouts:lock", 300
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


def pay_out(name, link):
    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    token = secrets.token_hex(16)
    while not client.set(LOCK, token, nx=True, px=LEASE_MS):  # !
        time.sleep(0.02)
    number = int(client.get("payouts:last") or 0) + 1  # !
    link.send("numbered")
    link.recv()
    client.set(f"payouts:batch:{number}", name)  # !
    client.set("payouts:last", number)  # !
    client.eval(RELEASE, 1, LOCK, token)
    link.send(number)


def start(name):
    here, there = multiprocessing.Pipe()
    process = multiprocessing.Process(target=pay_out, args=(name, there), daemon=True)
    process.start()
    return process, here


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    morning, from_morning = start("morning")
    from_morning.recv()
    os.kill(morning.pid, signal.SIGSTOP)
    from_morning.send("go on")  # it is asked to, and does not run

    noon, from_noon = start("noon")
    from_noon.recv()
    from_noon.send("go on")
    numbers = [from_noon.recv()]

    os.kill(morning.pid, signal.SIGCONT)
    numbers.append(from_morning.recv())
    if numbers[0] == numbers[1]:
        batch = client.get(f"payouts:batch:{numbers[0]}")
        print(f"damage: two batches have number {numbers[0]}, only the one of the {batch} is stored")


if __name__ == "__main__":
    main()
