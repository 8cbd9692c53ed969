"""Flask-Session and Flask-Caching (cachelib): several servers' sessions and cached views, as test clients of them."""
import os

from flask import Flask, session
from flask_caching import Cache
from flask_session import Session
from redis import Redis

from processes import URL, done, join, play, start

app = Flask(__name__)
app.config.update(SESSION_TYPE="redis", SESSION_REDIS=Redis.from_url(URL), SECRET_KEY="x",
                  CACHE_TYPE="RedisCache", CACHE_REDIS_URL=URL, CACHE_DEFAULT_TIMEOUT=5)
Session(app)
cache = Cache(app)


@app.get("/set/<value>")
def store(value):
    session["key"] = value
    return "stored"


@app.get("/get")
def read():
    return session.get("key", "not set")


@app.get("/page")
@cache.cached(timeout=2)
def page():
    return f"made by {os.getpid()}"


def server(name):
    client = app.test_client()
    for _ in range(5):
        client.get(f"/set/{name}")
        assert client.get("/get").text == name
        assert client.get("/page").text.startswith("made by")
        if not cache.add("first", name):
            cache.get_dict("first", "second")
    cache.delete("first")


def main():
    join([start("server", name) for name in ("ann", "bob", "cem")])
    done("each has its own session", len(list(Redis.from_url(URL).scan_iter("session:*"))), 3)


play({"main": main, "server": server})
