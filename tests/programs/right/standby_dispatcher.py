"""A taxi office has a dispatcher and one on standby. The dispatcher's process dies while it is in office, with rides waiting.

The standby comes in when the office has really run out (SET NX). Every ride is given out by one script that looks whether
its caller is in office, takes the ride off the list and enters it, so there is no moment between the look and the write.
"""
import multiprocessing
import os
import time
import uuid

import redis

GIVE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end
local ride = redis.call('LPOP', KEYS[2])
if not ride then return 0 end
redis.call('HINCRBY', KEYS[3], ride, 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
"""
LEAVE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
OFFICE, WAITING, GIVEN = "taxi:office", "taxi:waiting", "taxi:given"


def connect():
    return redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


def dispatch(r, life, until):
    name = str(uuid.uuid4())
    given = 0
    while given < until:
        while not r.set(OFFICE, name, nx=True, px=life):
            time.sleep(0.02)
        while given < until:
            answer = r.eval(GIVE, 3, OFFICE, WAITING, GIVEN, name, life)
            if answer == 0:
                r.eval(LEAVE, 1, OFFICE, name)
                return given
            if answer == -1:
                break  # out of office: try to come in again
            given += 1
    return given


def dying_dispatcher(in_office):
    dispatch(connect(), 400, 3)
    in_office.set()
    os._exit(1)


def standby(in_office):
    assert in_office.wait(15)
    assert dispatch(connect(), 60_000, 100) == 7


def main():
    r = connect()
    r.rpush(WAITING, *(f"ride-{number}" for number in range(10)))
    spawn = multiprocessing.get_context("spawn")
    in_office = spawn.Event()
    first = spawn.Process(target=dying_dispatcher, args=(in_office,))
    second = spawn.Process(target=standby, args=(in_office,))
    second.start()
    first.start()
    first.join(15)
    second.join(15)
    assert (first.exitcode, second.exitcode) == (1, 0)
    given = r.hgetall(GIVEN)
    good = given == {f"ride-{number}": "1" for number in range(10)} and not r.exists(WAITING)
    print(f"ok: {len(given)} rides were given out once each" if good else f"damage: given {given}")


if __name__ == "__main__":
    main()
