"""Sessions of a web shop: the server that a new browser meets first creates the session, any server serves it later.

SET NX keeps two servers from creating one session twice; the loser uses the session that is there. Each field has one
meaning and is written whole (HSET of a field, never a copy of the session), and a logout deletes what another server made.
Keys: session:<token> and the hash session:<token>:data.
"""
import os
import secrets
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import Pool

import redis


def client():
    return redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


def first_request(token):
    """Returns whether this server has created the session."""
    store = client()
    created = store.set(f"session:{token}", os.getpid(), nx=True, ex=1800)
    store.expire(f"session:{token}", 1800)
    return bool(created)


def visit(arguments):
    token, page = arguments
    store = client()
    with store.pipeline() as pipe:
        pipe.hset(f"session:{token}:data", f"seen:{page}", 1)
        pipe.hincrby(f"session:{token}:data", "visits", 1)
        pipe.expire(f"session:{token}:data", 1800)
        pipe.expire(f"session:{token}", 1800)
        pipe.execute()


def logout(token):
    client().delete(f"session:{token}", f"session:{token}:data")


def main():
    tokens = [secrets.token_urlsafe(24) for _ in range(5)]
    with Pool(3) as servers:
        for token in tokens:
            created = servers.map(first_request, [token] * 3, chunksize=1)
            assert sum(created) == 1, created
        visits = [(token, page) for page in ("home", "cart", "help") for token in tokens]
        servers.map(visit, visits, chunksize=1)
        store = client()
        for token in tokens:
            data = store.hgetall(f"session:{token}:data")
            assert data == {"seen:home": "1", "seen:cart": "1", "seen:help": "1", "visits": "3"}, data
        servers.map(logout, tokens, chunksize=1)
    with ThreadPoolExecutor(2) as pool:
        left = list(pool.map(lambda token: client().exists(f"session:{token}"), tokens))
    assert not any(left)
    print("ok: five sessions were created once each, served by three servers and removed")


if __name__ == "__main__":
    main()
