"""A diving school has two boats. A diver goes out with a permit, a member of a sorted set that a script adds if there is room.

Permits do not run out, so nobody is let in beside who is slow. The key vanishes whenever all are back. At the end of a day, when all
divers are back, the school deletes it with the permit that a diver has forgotten to give back; next day the same names go out.
"""
import os
import threading
import time

import redis

URL = os.environ["REDIS_URL"]
BOATS = 2
TAKE = """
if redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], redis.call('INCR', KEYS[2]), ARGV[1])
return 1
"""
PERMITS, NUMBERS, OUT, TRIPS = "school:boats:permits", "school:boats:numbers", "school:boats:out", "school:trips"


def diver(name, trips, forgets, most, errors):
    try:
        r = redis.Redis.from_url(URL, decode_responses=True)
        for trip in range(trips):
            while not r.eval(TAKE, 2, PERMITS, NUMBERS, name, BOATS):
                time.sleep(0.005)
            most.append(r.incr(OUT))
            r.hincrby(TRIPS, name, 1)
            r.decr(OUT)
            if not (forgets and trip == trips - 1):
                assert r.zrem(PERMITS, name) == 1
        r.close()
    except Exception as error:
        errors.append(error)


def main():
    r = redis.Redis.from_url(URL, decode_responses=True)
    most, errors, names = [], [], ["ann", "bo", "cem", "dag", "eva"]
    for day in range(3):
        forgetful = names[day]
        divers = [threading.Thread(target=diver, args=(name, 4, name == forgetful, most, errors)) for name in names]
        for thread in divers:
            thread.start()
        for thread in divers:
            thread.join()
        assert not errors, errors
        assert r.zrange(PERMITS, 0, -1) == [forgetful]
        r.delete(PERMITS)  # everybody is back
    trips = sum(map(int, r.hvals(TRIPS)))
    if max(most) <= BOATS and trips == 3 * 4 * len(names):
        print(f"ok: {trips} trips, at most {BOATS} divers were out at a time")
    else:
        print(f"damage: {max(most)} out with {BOATS} boats, {trips} trips")


main()
