"""Laundrette: the app keeps a session per customer; any request may touch it, and a logout ends it.

Right: a touch writes fields that nobody computes from what he has read, and does it in a script that looks whether
the session is still there. A request that comes late does not bring back the session that the logout has deleted.
"""
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import redis

pool = redis.BlockingConnectionPool.from_url(
    os.environ["REDIS_URL"], decode_responses=True, max_connections=4, timeout=15
)
r = redis.Redis(connection_pool=pool)
touch = r.register_script("""
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], 'page', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'requests', 1)
redis.call('EXPIRE', KEYS[1], 1800)
return 1
""")


def login(customer, number):
    key = f"laundry:session:{number:04d}{customer}"
    with r.pipeline() as pipe:
        pipe.hset(key, mapping={"customer": customer, "page": "/", "requests": 0}).expire(key, 1800).execute()
    return key


def request(key, page, logged_out=None):
    if logged_out:
        logged_out.wait(15)  # was on its way for long
    return touch(keys=[key], args=[page])


def logout(key, logged_out):
    r.delete(key)
    logged_out.set()


def main():
    sessions = [login(customer, number) for number, customer in enumerate(("aoife", "bram", "chidi"))]
    gone = threading.Event()
    with ThreadPoolExecutor(12) as workers:
        late = [workers.submit(request, sessions[0], "/dryers", gone) for _ in range(3)]
        seen = [workers.submit(request, key, f"/machine/{n}") for key in sessions[1:] for n in range(20)]
        workers.submit(logout, sessions[0], gone).result()
        late = [done.result() for done in late]
        seen = [done.result() for done in seen]
    requests = [int(r.hget(key, "requests")) for key in sessions[1:]]
    assert late == [0, 0, 0] and sum(seen) == 40
    assert requests == [20, 20] and not r.exists(sessions[0])
    print("ok: 20 requests in each of two sessions, and the third stays logged out")


main()
