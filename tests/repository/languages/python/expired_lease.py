"""A lock is held for its last millisecond, and gone one later. Nobody sleeps."""

import os

import redis

test = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
worker = redis.Redis.from_url(os.environ["REDIS_URL"])
events = test.pubsub(ignore_subscribe_messages=True)

test.config_set("notify-keyspace-events", "Ex")
test.execute_command("REDOUBLE", "CLOCK", "FREEZE")
events.subscribe("__keyevent@0__:expired")
while not events.subscribed or events.get_message(timeout=1):
    pass

lock = worker.lock("lock:job", timeout=30)
assert lock.acquire(blocking=False)
test.execute_command("REDOUBLE", "CLOCK", "ADVANCE", "30s")
assert lock.owned(), "the last millisecond"
test.execute_command("REDOUBLE", "CLOCK", "ADVANCE", 1)
assert not lock.owned(), "one later"
message = events.get_message(timeout=10)
assert message and message["data"] == "lock:job", message

try:
    lock.release()
    raise AssertionError("released what it did not own")
except redis.exceptions.LockNotOwnedError:
    pass
