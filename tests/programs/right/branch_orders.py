"""Orders of a branch are on the branch's server, the locks are on the one of the head office.

Reads and writes of the data are all between the take and the release of the documented lock on the other server; the lease
is long compared with the work, and each write compares the version besides.
Keys: lock branch:8:lock on the first server, hash branch:8:orders on the second (fields count, version).
"""
import multiprocessing
import os
import secrets
import time

import redis

LOCK, ORDERS = "branch:8:lock", "branch:8:orders"
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"
WRITE = """
if (redis.call('HGET', KEYS[1], 'version') or '0') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[1] + 1, 'count', ARGV[2])
return 1
"""


def order(quantities, barrier, refused):
    head_office, branch = (redis.Redis.from_url(url) for url in os.environ["REDIS_URLS"].split(",")[:2])
    barrier.wait()
    for quantity in quantities:
        token = secrets.token_hex(16)
        while not head_office.set(LOCK, token, nx=True, ex=30):
            with refused.get_lock():
                refused.value += 1
            time.sleep(0.002)
        try:
            version, count = (int(field or 0) for field in branch.hmget(ORDERS, "version", "count"))
            time.sleep(0.002)
            assert branch.eval(WRITE, 1, ORDERS, version, count + quantity) == 1
        finally:
            assert head_office.eval(RELEASE, 1, LOCK, token) == 1


def main():
    barrier, refused = multiprocessing.Barrier(3, timeout=5), multiprocessing.Value("i", 0)
    clerks = [multiprocessing.Process(target=order, args=([n] * 8, barrier, refused)) for n in (1, 10, 100)]
    for clerk in clerks:
        clerk.start()
    for clerk in clerks:
        clerk.join()
        assert clerk.exitcode == 0
    branch = redis.Redis.from_url(os.environ["REDIS_URLS"].split(",")[1], decode_responses=True)
    orders = branch.hgetall(ORDERS)
    assert orders == {"version": "24", "count": "888"} and refused.value > 0, (orders, refused.value)
    print("ok: 24 orders of three clerks add up on the branch's server")


if __name__ == "__main__":
    main()
