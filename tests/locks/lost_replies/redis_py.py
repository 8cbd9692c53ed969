"""What redis-py's Lock does when the reply to its SET is lost."""

import os
from urllib.parse import urlsplit

import redis

url = os.environ["REDIS_URL"]
test = redis.Redis.from_url(url)


def trial(kind, client, verdict):
    test.flushall()
    test.execute_command("REDOUBLE FAULT ADD f on SET times 1", verdict)
    lock = client.lock("lock", timeout=30)
    try:
        said = f"`acquire` returns {lock.acquire(blocking=False)}"
    except redis.RedisError as error:
        said = f"`acquire` raises {type(error).__name__}"
    print(" | ".join([kind, verdict, said, "taken" if test.exists("lock") else "free"]))
    test.execute_command("REDOUBLE FAULT CLEAR")


for verdict in ["close-before", "close-after"]:
    trial("redis-py 8.1.0, `from_url`", redis.Redis.from_url(url), verdict)
for verdict in ["close-before", "close-after"]:
    where = urlsplit(url)
    trial("redis-py 8.1.0, `Redis(host, port)`", redis.Redis(where.hostname, where.port), verdict)
