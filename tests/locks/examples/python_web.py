"""cashews, slowapi, Flask-Limiter, walrus, channels_redis and python-socketio: caches, limits, channels and rooms that processes
share."""
import asyncio

from redis import Redis

from processes import URL, done, join, play, start

redis = Redis.from_url(URL)


async def read_cashews():
    from cashews import cache

    cache.setup(URL)

    @cache(ttl="1s", key="user:{number}", lock=True)
    async def load(number):
        await asyncio.sleep(0.01)
        return {"number": number}

    @cache.early(ttl="2s", early_ttl="1s", key="early:{number}")
    async def early(number):
        return {"early": number}

    @cache.soft(ttl="2s", soft_ttl="1s", key="soft:{number}")
    async def soft(number):
        return {"soft": number}

    @cache.failover(ttl="10s", key="fail:{number}")
    async def fail(number):
        return {"fail": number}

    @cache.rate_limit(limit=5, period="10s", key="limited")
    async def limited():
        return 1

    @cache.locked(ttl="10s", key="report", wait=True)
    async def report():
        return 1

    @cache.bloom(capacity=100, false_positives=1, name="bloom:{number}")
    async def exists(number):
        return True

    for visit in range(9):
        number = visit % 3
        assert await load(number) == {"number": number}
        await early(number)
        await soft(number)
        await fail(number)
        await report()
        try:
            await limited()
        except Exception as refused:
            assert "limit" in type(refused).__name__.lower(), refused
        async with cache.lock("manual", expire="10s"):
            await cache.incr("visits")
        await cache.set("last", visit, exist=False, expire="1s")
        async with cache.transaction():
            await cache.set("transaction", visit)
        if visit % 4 == 3:
            await cache.delete_match("user:*")
    await cache.delete("last")
    await cache.close()


def cashews_reader():
    asyncio.run(read_cashews())


def visitor():
    from fastapi import FastAPI, Request
    from fastapi.testclient import TestClient
    from slowapi import Limiter, _rate_limit_exceeded_handler
    from slowapi.errors import RateLimitExceeded
    from slowapi.util import get_remote_address

    limiter = Limiter(key_func=get_remote_address, storage_uri=URL)
    app = FastAPI()
    app.state.limiter = limiter
    app.add_exception_handler(RateLimitExceeded, _rate_limit_exceeded_handler)

    @app.get("/home")
    @limiter.limit("10/minute")
    async def home(request: Request):
        return "hello"

    client = TestClient(app)
    redis.incrby("slowapi", sum(client.get("/home").status_code == 200 for _ in range(6)))

    from flask import Flask
    from flask_limiter import Limiter as FlaskLimiter
    from flask_limiter.util import get_remote_address as address

    server = Flask(__name__)
    flask_limiter = FlaskLimiter(address, app=server, storage_uri=URL, strategy="moving-window")

    @server.get("/slow")
    @flask_limiter.limit("10 per minute")
    def slow():
        return ":("

    browser = server.test_client()
    redis.incrby("flask-limiter", sum(browser.get("/slow").status_code == 200 for _ in range(6)))


def walrus_reader():
    from walrus import Database

    database = Database.from_url(URL)
    cache = database.cache("walrus-cache")

    @cache.cached(timeout=1)
    def load(number):
        return {"number": number}

    limit = database.rate_limit("walrus-limit", limit=10, per=60)
    words = database.List("walrus-words")
    for visit in range(9):
        assert load(visit % 3) == {"number": visit % 3}
        limit.limit("ann")
        words.append(str(visit))
    load.bust(1)


async def talk(name):
    from channels_redis.core import RedisChannelLayer
    from channels_redis.pubsub import RedisPubSubChannelLayer

    for layer in (RedisChannelLayer(hosts=[URL]), RedisPubSubChannelLayer(hosts=[URL])):
        channel = await layer.new_channel()
        await layer.group_add("room", channel)
        for number in range(5):
            await layer.group_send("room", {"type": "chat", "number": number, "from": name})
        assert (await asyncio.wait_for(layer.receive(channel), 60))["type"] == "chat"
        await layer.group_discard("room", channel)
        await layer.flush()
        if hasattr(layer, "close_pools"):
            await layer.close_pools()


def talker(name):
    asyncio.run(talk(name))


async def meet():
    import socketio

    server = socketio.AsyncServer(client_manager=socketio.AsyncRedisManager(URL))
    manager = socketio.AsyncRedisManager(URL, write_only=True)
    await server.emit("hello", {"text": "hi"}, room="room")
    for _ in range(5):
        await manager.emit("hello", {"text": "hi"}, room="room")
        await asyncio.sleep(0.02)


def meeting():
    asyncio.run(meet())


def main():
    join([start("cashews_reader") for _ in range(3)])
    done("cashews", True)
    join([start("visitor") for _ in range(3)])
    done("slowapi", int(redis.get("slowapi")), 10)
    done("Flask-Limiter", int(redis.get("flask-limiter")), 10)
    join([start("walrus_reader") for _ in range(3)])
    done("walrus", True)
    join([start("talker", name) for name in ("ann", "bob", "cem")])
    done("channels_redis", True)
    join([start("meeting") for _ in range(2)])
    done("python-socketio", True)


ROLES = (main, cashews_reader, visitor, walrus_reader, talker, meeting)
play({role.__name__: role for role in ROLES})
