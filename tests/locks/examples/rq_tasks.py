"""The functions that rq's workers import by name."""
import os

from redis import Redis


def add(x, y):
    return x + y


def unsteady():
    if Redis.from_url(os.environ["REDIS_URL"]).incr("tried") == 1:
        raise RuntimeError("at first it fails")
