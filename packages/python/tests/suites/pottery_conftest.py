"""The fixtures of pottery's tests, which its source package lacks. Two of its files connect to the default port."""

import os

import pytest
import redis.asyncio.connection
import redis.connection


def lead_to_the_server(connection):
    connect = connection.__init__

    def __init__(self, *args, port=6379, **options):
        connect(self, *args, port=int(os.environ["REDIS_PORT"]) if port == 6379 else port, **options)

    connection.__init__ = __init__


lead_to_the_server(redis.connection.Connection)
lead_to_the_server(redis.asyncio.connection.Connection)


@pytest.fixture(name="redis")
def private(redouble):
    return redis.Redis.from_url(redouble.url + "/7", socket_timeout=1)


@pytest.fixture
async def aioredis(redouble):
    async with redis.asyncio.Redis.from_url(redouble.url + "/7", socket_timeout=1) as client:
        yield client
