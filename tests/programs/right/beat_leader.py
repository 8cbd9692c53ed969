"""A leader among three beat processes starts periodic tasks; when it is killed, another one follows.

A process leads while the script that compares and extends says so, and steps down when it does not. A script starts a
task and notes its minute with SET NX in one step, so that a change of leaders does not start it twice.
Keys: lock beat/leader, notes beat/minute/<n>, list beat/started.
"""
import multiprocessing
import os
import signal
import time
import uuid

import redis

LEADER, LEASE = "beat/leader", 500
EXTEND = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"
START = "if redis.call('set', KEYS[1], ARGV[1], 'NX', 'EX', 3600) then redis.call('rpush', KEYS[2], ARGV[2]) end"
RESIGN = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


def beat(minutes, leaders):
    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    extend, start, resign = (client.register_script(script) for script in (EXTEND, START, RESIGN))
    me, leads = f"{os.getpid()}-{uuid.uuid4()}", False
    while client.llen("beat/started") < minutes:
        if leads:
            leads = extend(keys=[LEADER], args=[me, LEASE]) == 1
        else:
            leads = bool(client.set(LEADER, me, nx=True, px=LEASE))
            if leads:
                leaders.put(os.getpid())
        if leads:
            minute = client.llen("beat/started")
            start(keys=[f"beat/minute/{minute}", "beat/started"], args=[me, minute])
        time.sleep(0.04)
    if leads:
        resign(keys=[LEADER], args=[me])


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    leaders = multiprocessing.Queue()
    processes = [multiprocessing.Process(target=beat, args=(12, leaders)) for _ in range(3)]
    for process in processes:
        process.start()
    first = leaders.get(timeout=5)
    while client.llen("beat/started") < 4:
        time.sleep(0.01)
    os.kill(first, signal.SIGKILL)
    second = leaders.get(timeout=5)
    for process in processes:
        process.join()
    started = client.lrange("beat/started", 0, -1)
    assert started == [str(n) for n in range(12)] and second != first, started
    print("ok: 12 tasks were started once each, the leader was killed on the way and replaced")


if __name__ == "__main__":
    main()
