"""limits (with slowapi's and Flask-Limiter's strategies) and pyrate-limiter: several processes share the limits."""
from limits import parse
from limits.storage import storage_from_string
from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter, SlidingWindowCounterRateLimiter
from pyrate_limiter import Duration, Limiter, Rate, RedisBucket
from redis import Redis

from processes import URL, done, join, play, start

STRATEGIES = [FixedWindowRateLimiter, MovingWindowRateLimiter, SlidingWindowCounterRateLimiter]


def client():
    storage = storage_from_string(URL)
    redis = Redis.from_url(URL)
    for strategy in STRATEGIES:
        limiter = strategy(storage)
        passed = sum(limiter.hit(parse("10/hour"), strategy.__name__, "ann") for _ in range(8))
        redis.incrby(f"passed:{strategy.__name__}", passed)
        limiter.get_window_stats(parse("10/hour"), strategy.__name__, "ann")
    bucket = RedisBucket.init([Rate(10, Duration.HOUR)], redis, "bucket")
    limiter = Limiter(bucket)
    redis.incrby("passed:bucket", sum(limiter.try_acquire("item", blocking=False) for _ in range(8)))


def main():
    join([start("client") for _ in range(3)])
    redis = Redis.from_url(URL)
    for strategy in STRATEGIES:
        name = strategy.__name__
        done(f"ten passed: {name}", redis.get(f"passed:{name}"), b"10")
    # Processes that ask at once have been seen to get one more.
    done("about ten passed: bucket", int(redis.get("passed:bucket")) in (10, 11, 12))
    storage_from_string(URL).reset()


play({"main": main, "client": client})
