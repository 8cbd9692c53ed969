"""The fixtures of pottery's tests, which its source package lacks."""

import pytest
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

URL = "redis://localhost:6379/7"


@pytest.fixture
def redis():
    client = Redis.from_url(URL, socket_timeout=1)
    client.flushdb()
    yield client
    client.flushdb()


@pytest.fixture
async def aioredis():
    client = AsyncRedis.from_url(URL, socket_timeout=1)
    await client.flushdb()
    yield client
    await client.flushdb()
