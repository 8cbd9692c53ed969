"""Two printers give out vouchers with serial numbers and take a lock with a script that sets the key and when it ends.

Wrong: the script hands the deadline in seconds to PEXPIREAT, which wants milliseconds. That is a moment of January 1970: the key is
deleted at once, the script says "taken" to everybody, and both printers use the same serials.
"""
import multiprocessing
import os
import secrets
import time

import redis

TAKE = """
if redis.call('SETNX', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('PEXPIREAT', KEYS[1], ARGV[2])
return 1
"""  # PEXPIREAT with seconds deletes the lock in the script that takes it!
GIVE_BACK = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
LOCK, NEXT = "voucher:spring:printing", "voucher:spring:next"


def printer(name, amount, has_read, may_write, written):
    r = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    token = secrets.token_hex(16)
    while not r.eval(TAKE, 1, LOCK, token, int(time.time()) + 60):
        time.sleep(0.02)
    serial = int(r.get(NEXT))
    has_read.set()
    assert may_write.wait(15)
    r.rpush("voucher:spring:printed", *range(serial, serial + amount))
    r.set(NEXT, serial + amount)  # the other printer has the same serials!
    r.eval(GIVE_BACK, 1, LOCK, token)
    written.set()


def main():
    r = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    r.set(NEXT, 1000)
    spawn = multiprocessing.get_context("spawn")
    left_read, right_read, left_written, right_written = (spawn.Event() for _ in range(4))
    printers = [
        spawn.Process(target=printer, args=("left", 20, left_read, right_read, left_written)),
        spawn.Process(target=printer, args=("right", 15, right_read, left_written, right_written)),
    ]
    for process in printers:
        process.start()
    for process in printers:
        process.join(15)
        assert process.exitcode == 0
    printed = r.lrange("voucher:spring:printed", 0, -1)
    twice = len(printed) - len(set(printed))
    print(f"damage: {twice} of {len(printed)} serials were printed twice" if twice else "ok: each serial was printed once")


if __name__ == "__main__":
    main()
