"""dogpile.cache: a region with distributed locks, whose values several processes make, get, refresh and throw away."""
import time

from dogpile.cache import make_region
from redis import Redis

from processes import URL, done, join, play, start

region = make_region().configure(
    "dogpile.cache.redis",
    expiration_time=0.3,
    arguments={"url": URL, "distributed_lock": True, "thread_local_lock": False, "redis_expiration_time": 60},
)


@region.cache_on_arguments()
def load_user(number):
    Redis.from_url(URL).incr(f"loads:{number}")
    time.sleep(0.02)
    return {"number": number}


def reader():
    for visit in range(20):
        assert load_user(visit % 3) == {"number": visit % 3}
        time.sleep(0.02)
    load_user.invalidate(1)
    load_user.refresh(2)
    region.set("key", "value")
    region.get_or_create("made", lambda: 17)
    region.delete("key")


def main():
    join([start("reader") for _ in range(3)])
    loads = sum(int(Redis.from_url(URL).get(f"loads:{number}")) for number in range(3))
    done("fewer values were made than read", 3 <= loads < 60)


play({"main": main, "reader": reader})
