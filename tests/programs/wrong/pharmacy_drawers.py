"""Pharmacy: two robots' arms take boxes out of drawers, one arm in a drawer at a time.

Wrong: an arm enters itself for the drawer by HSETNX and goes on whatever the answer is. Both arms are in the same
drawer, and one box that is gone is still in the count.
"""
import os
from threading import Barrier, Thread

import redis

DRAWERS, BOXES = "pharmacy:drawers:in-use", "pharmacy:boxes:%s"
LEAVE = "if redis.call('hget', KEYS[1], ARGV[1]) == ARGV[2] then redis.call('hdel', KEYS[1], ARGV[1]) end"


def connect():
    return redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True, max_connections=1)


def take_box(arm, drawer, beside):
    r = connect()
    r.hsetnx(DRAWERS, drawer, arm)  # 0 says: the other arm is in there !
    beside.wait(15)
    boxes = int(r.get(BOXES % drawer))
    beside.wait(15)
    r.set(BOXES % drawer, boxes - 1)
    beside.wait(15)
    r.eval(LEAVE, 1, DRAWERS, drawer, arm)


control, beside = connect(), Barrier(2)
control.set(BOXES % "ibuprofen", 30)
arms = [Thread(target=take_box, args=(arm, "ibuprofen", beside)) for arm in ("left arm", "right arm")]
for arm in arms:
    arm.start()
for arm in arms:
    arm.join()
count = int(control.get(BOXES % "ibuprofen"))
if count != 28:
    print(f"damage: two boxes are taken by two arms at once, and the count went from 30 to {count}")
