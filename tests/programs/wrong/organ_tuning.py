"""Organ builder: the tuners of a cathedral organ share one list of corrections, in cents.

Wrong: the renewal is PEXPIRE on the lock, whoever has it. A tuner whose lease ran out while he climbed the pipes
renews the lease of his colleague, hears "1", and goes on as if nothing had happened.
"""
import json
import os
import time
import uuid
from multiprocessing import Pipe, Process

import redis

LOCK, CENTS = "organ:swell:tuning", "organ:swell:cents"
RELEASE = """
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('del', KEYS[1])
"""


def tuner(pipe_name, cents, lease, orders):
    r = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    release = r.register_script(RELEASE)
    token = uuid.uuid4().hex
    while not r.set(LOCK, token, nx=True, px=lease):
        time.sleep(0.05)
    corrections = json.loads(r.get(CENTS))
    orders.send("inside")
    orders.recv()

    if not r.pexpire(LOCK, 60_000):  # also 1 if it is the colleague's !
        return
    corrections[pipe_name] = cents
    r.set(CENTS, json.dumps(corrections))  # not inside any more !
    release(keys=[LOCK], args=[token])
    orders.send("done")


def start(*arguments):
    here, there = Pipe()
    process = Process(target=tuner, args=(*arguments, there))
    process.start()
    assert here.recv() == "inside"
    return process, here


def goes_on(process, orders):
    orders.send("go on")
    assert orders.recv() == "done"
    process.join()


if __name__ == "__main__":
    r = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    r.set(CENTS, json.dumps({"oboe C": -2}))
    slow = start("gamba F", 4, 300)
    time.sleep(0.4)
    colleague = start("trumpet A", -7, 60_000)
    goes_on(*slow)
    goes_on(*colleague)
    cents = json.loads(r.get(CENTS))
    for name in {"gamba F", "trumpet A"} - set(cents):
        print(f"damage: the correction of {name} is lost: {cents}")
