"""Blood bank: hospitals reserve bags of a group, one at a time.

Wrong: the lock is looked for by EXISTS and then put by SET. Two hospitals that both look before either puts are both
inside, and the last bag is promised twice.
"""
import os
import uuid

import redis

LOCK, BAGS, PROMISED = "blood:lock:0neg", "blood:bags:0neg", "blood:promised:0neg"
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


def connect():
    return redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


def reserve(hospital, said, heard):
    """One step, then a byte to the parent, who answers when it goes on."""
    def step():
        os.write(said, b".")
        os.read(heard, 1)

    r, token = connect(), uuid.uuid4().hex
    if r.exists(LOCK):
        return
    step()
    r.set(LOCK, token, ex=60)  # no NX: it may be there by now !
    step()
    bags = int(r.get(BAGS))
    step()
    if bags > 0:
        r.set(BAGS, bags - 1)  # both come here with the same number !
        r.rpush(PROMISED, hospital)
    r.eval(RELEASE, 1, LOCK, token)


def start(hospital):
    said, heard = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        reserve(hospital, said[1], heard[0])
        os._exit(0)
    os.close(said[1])
    return pid, said[0], heard[1]


control = connect()
control.set(BAGS, 1)
children = [start("St. Luke"), start("Riverside")]
for _ in range(3):
    for _, said, _ in children:
        os.read(said, 1)
    for _, _, go in children:
        os.write(go, b".")
for pid, _, _ in children:
    os.waitpid(pid, 0)

promised = control.lrange(PROMISED, 0, -1)
if len(promised) > 1:
    print(f"damage: one bag is promised to {' and '.join(sorted(promised))}")
