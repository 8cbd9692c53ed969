"""A portal makes a session for whoever comes first with a number; requests are threads of one process that share a pool.

The session is made with SET NX, and who was too late uses the one that is there. Nobody replaces a session: logging
out deletes it with GETDEL, and then the number is free again. Views are counted with HINCRBY.
"""
import json
import os
import threading

import redis

POOL = redis.BlockingConnectionPool.from_url(os.environ["REDIS_URL"], max_connections=6, decode_responses=True)
ROUNDS, USERS = 5, [f"user-{number}" for number in range(6)]


def request(user, together, seen, made, errors):
    try:
        r = redis.Redis(connection_pool=POOL)
        together.wait(15)
        while (session := r.get("portal:session:kiosk")) is None:
            mine = json.dumps({"user": user})
            if r.set("portal:session:kiosk", mine, nx=True, ex=3600):
                made.append(user)
        seen.append(json.loads(session)["user"])
        r.expire("portal:session:kiosk", 3600)
        r.hincrby("portal:views", "kiosk", 1)
    except Exception as error:
        errors.append(error)


def main():
    r = redis.Redis(connection_pool=POOL)
    faults, errors = [], []
    for number in range(ROUNDS):
        together, seen, made = threading.Barrier(len(USERS)), [], []
        requests = [threading.Thread(target=request, args=(user, together, seen, made, errors)) for user in USERS]
        for thread in requests:
            thread.start()
        for thread in requests:
            thread.join()
        owner = json.loads(r.getdel("portal:session:kiosk"))["user"]
        if made != [owner] or set(seen) != {owner}:
            faults.append(f"round {number}: made by {made}, seen {sorted(set(seen))}")
    assert not errors, errors
    views = int(r.hget("portal:views", "kiosk"))
    if not faults and views == ROUNDS * len(USERS):
        print(f"ok: {ROUNDS} sessions of one user each, {views} views")
    else:
        print(f"damage: {views} views, {'; '.join(faults)}")


main()
