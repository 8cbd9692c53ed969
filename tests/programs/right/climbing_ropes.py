"""Climbing hall: two ropes for six groups.

Right: a rope is given by a script that counts and adds in one go, and has no expiry. A group that dies with its rope
is waited for by the warden, who is its parent; he hangs up the rope when the process is gone, and not before.
"""
import os
import signal
import time
import uuid

import redis

ROPES, LOG = "hall:ropes", "hall:log"
TAKE = """
if redis.call('ZCARD', KEYS[1]) >= 2 then return 0 end
return redis.call('ZADD', KEYS[1], redis.call('TIME')[1], ARGV[1])
"""


def connect():
    return redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


def group(rope, falls):
    r = connect()
    take = r.register_script(TAKE)
    while not take(keys=[ROPES], args=[rope]):
        time.sleep(0.02)
    r.rpush(LOG, f"up {rope}")
    if falls:
        os.kill(os.getpid(), signal.SIGKILL)
    r.rpush(LOG, f"down {rope}")
    r.zrem(ROPES, rope)


groups = {}
for number in range(6):
    rope = f"group-{number}-{uuid.uuid4().hex}"
    pid = os.fork()
    if pid == 0:
        group(rope, falls=number in (0, 3))
        os._exit(0)
    groups[pid] = rope

r, fallen = connect(), 0
while groups:
    pid, status = os.wait()
    rope = groups.pop(pid)
    if os.WIFSIGNALED(status):
        fallen += 1
        r.rpush(LOG, f"down {rope}")
        r.zrem(ROPES, rope)  # nobody is there any more to do it

up, most, climbs = set(), 0, 0
for line in r.lrange(LOG, 0, -1):
    word, rope = line.split()
    if word == "up":
        up.add(rope)
        climbs += 1
    else:
        up.remove(rope)
    most = max(most, len(up))
assert climbs == 6 and fallen == 2 and most <= 2 and not up and not r.exists(ROPES), (climbs, fallen, most, up)
print(f"ok: 6 groups, 2 of them fell, and never more than {most} on a rope")
