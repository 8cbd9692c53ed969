"""A SET NX that never ran and one whose reply was lost look alike to the client. The server knows."""

import os

import redis
from redis.retry import Retry
from redis.backoff import NoBackoff

client = redis.Redis.from_url(os.environ["REDIS_URL"], retry=Retry(NoBackoff(), 0))
test = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


def takes_the_lock():
    try:
        return client.set("lock", "token", nx=True, px=30_000)
    except redis.ConnectionError:
        return "connection lost"


test.execute_command("REDOUBLE", "FAULT", "ADD", "never-ran", "on", "SET", "times", 1, "close-before")
assert takes_the_lock() == "connection lost"
assert test.get("lock") is None, "close-before leaves the lock free"

test.execute_command("REDOUBLE", "FAULT", "ADD", "reply-lost", "on", "SET", "times", 1, "close-after")
assert takes_the_lock() == "connection lost"
assert test.get("lock") == "token", "close-after leaves it taken"
assert takes_the_lock() is None, "who tries again meets its own lock"

assert test.execute_command("REDOUBLE", "FAULT", "CLEAR") == [], "both faults have fired"
