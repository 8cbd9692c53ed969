"""A state file is written by the holder of a lease, with a fencing number.

The lease of the first writer is over when it writes, and another one has come since. Reads and writes go through scripts
that compare the fencing number with the highest one seen: once the second writer has read, the late write is refused.
Keys: lock state:lease, counter state:fence, hash state:current (fields fence, value).
"""
import multiprocessing
import os
import secrets
import time

import redis

TAKE = """
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
    return redis.call('INCR', KEYS[2])
end
return 0
"""
READ = """
local newest = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
if tonumber(ARGV[1]) < newest then return false end
redis.call('HSET', KEYS[1], 'fence', ARGV[1])
return redis.call('HGET', KEYS[1], 'value') or ''
"""
WRITE = """
local newest = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
if tonumber(ARGV[1]) < newest then return 0 end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2])
return 1
"""
RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


def writer(name, holds, may_write, answers):
    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    take, read, write, release = (client.register_script(script) for script in (TAKE, READ, WRITE, RELEASE))
    token = secrets.token_hex(16)
    while not (fence := take(keys=["state:lease", "state:fence"], args=[token, 250])):
        time.sleep(0.02)
    before = read(keys=["state:current"], args=[fence])
    holds.set()
    may_write.wait(5)
    written = write(keys=["state:current"], args=[fence, before + name])
    answers.put((name, bool(written)))
    release(keys=["state:lease"], args=[token])


def main():
    answers = multiprocessing.Queue()
    slow_holds, second_holds, second_is_done, at_once = (multiprocessing.Event() for _ in range(4))
    at_once.set()
    slow = multiprocessing.Process(target=writer, args=("a", slow_holds, second_is_done, answers))
    second = multiprocessing.Process(target=writer, args=("b", second_holds, at_once, answers))
    slow.start()
    slow_holds.wait(5)
    second.start()
    second.join()
    second_is_done.set()
    slow.join()
    written = dict(answers.get(timeout=2) for _ in range(2))
    value = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True).hget("state:current", "value")
    assert written == {"a": False, "b": True} and value == "b", (written, value)
    print("ok: the write after the lease was refused by its fencing number")


if __name__ == "__main__":
    main()
