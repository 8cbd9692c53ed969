"""django-redis: get_or_set, add, locks, versions and sessions, over several processes."""
import time

import django
from django.conf import settings

from processes import URL, done, join, play, start

settings.configure(
    CACHES={"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": URL}},
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
    INSTALLED_APPS=[],
)
django.setup()

from django.contrib.sessions.backends.cache import SessionStore  # noqa: E402
from django.core.cache import cache  # noqa: E402


def worker(key):
    for turn in range(8):
        cache.get_or_set("front-page", lambda: "<h1>hello</h1>", timeout=1)
        if not cache.add("build", {"number": turn}, timeout=60):
            cache.get("build")
        with cache.lock("stock-lock", timeout=10, sleep=0.005):
            cache.set("stock", cache.get("stock", 0) + 1)
        session = SessionStore(session_key=key)
        session["page"] = turn
        session.save()
        cache.touch("front-page", 5)
        time.sleep(0.002)
    cache.delete("front-page")
    cache.delete("build")


def main():
    session = SessionStore()
    session["user"] = "ann"
    session.create()
    join([start("worker", session.session_key) for _ in range(3)])
    done("no increment is lost", cache.get("stock"), 24)
    session = SessionStore(session_key=session.session_key)
    done("the session is there", session["user"], "ann")
    session.cycle_key()
    session.flush()
    cache.delete_pattern("*")


play({"main": main, "worker": worker})
