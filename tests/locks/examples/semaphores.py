"""py-redis-semaphore: permits and a mutex that several processes take and give back."""
import time

from redis import Redis
from redis_semaphore import Mutex, Semaphore, SemaphoreConfig

from processes import URL, done, join, play, start


def worker():
    redis = Redis.from_url(URL)
    for _ in range(6):
        with Semaphore(redis, SemaphoreConfig(name="printer", limit=2)):
            inside = redis.incr("inside")
            time.sleep(0.005)
            redis.decr("inside")
            assert inside <= 2, inside
        with Mutex(redis, "my-mutex"):
            redis.set("total", int(redis.get("total") or 0) + 1)


def main():
    join([start("worker") for _ in range(3)])
    done("no increment is lost", Redis.from_url(URL).get("total"), b"18")
    done("never more than two were inside", Redis.from_url(URL).get("inside"), b"0")


play({"main": main, "worker": worker})
