"""A batch of insurance claims, whose lease a thread of the program keeps alive over a connection of its own.

The program stands still for longer than the lease, another one takes over, and the thread is told 0 by its script. It ends
quietly; the main thread goes on and writes over what the other one has written.
Keys: lock claims:batch:owner, data claims:paid. The lines marked ! are the evidence.
"""
import os
import subprocess
import sys
import threading
import time
import uuid

import redis

OWNER, PAID = "claims:batch:owner", "claims:paid"
EXTEND = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"


def connect():
    return redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


def keep(token, lease, wakes, has_ended):
    client = connect()
    wakes.wait(10)
    while client.eval(EXTEND, 1, OWNER, token, lease):  # !
        time.sleep(lease / 3000)
    has_ended.set()


def batch(lease, amount):
    client, token = connect(), str(uuid.uuid4())
    wakes, has_ended = threading.Event(), threading.Event()
    assert client.set(OWNER, token, nx=True, px=int(lease))  # !
    paid = int(client.get(PAID) or 0)  # !
    print("working", flush=True)
    if sys.stdin.readline() == "stand still\n":
        threading.Thread(target=keep, args=(token, int(lease), wakes, has_ended)).start()
        sys.stdin.readline()
        wakes.set()
        has_ended.wait(10)
    client.set(PAID, paid + int(amount))  # !
    client.eval("if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0", 1, OWNER, token)


def start(*words):
    command = [sys.executable, __file__, *map(str, words)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "working\n"
    return process


def main():
    client = connect()
    first = start(300, 250)
    first.stdin.write("stand still\n")
    first.stdin.flush()
    while client.exists(OWNER):
        time.sleep(0.02)
    second = start(60000, 80)
    second.stdin.write("go\n")
    second.stdin.flush()
    while client.get(PAID) is None:
        time.sleep(0.02)
    second.wait()
    third = start(60000, 20)
    first.communicate("wake up\n")
    third.communicate("go\n")
    paid = int(client.get(PAID))
    if paid != 350:
        print(f"damage: 350 were paid, {paid} are in the books")


if __name__ == "__main__":
    batch(*sys.argv[1:]) if sys.argv[1:] else main()
