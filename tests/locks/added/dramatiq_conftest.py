"""The fixtures of dramatiq's tests, which its source package lacks, with Redis as the only store."""

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker
from dramatiq.rate_limits.backends.redis import RedisBackend as RateLimiterBackend
from dramatiq.results.backends.redis import RedisBackend as ResultBackend


@pytest.fixture
def stub_broker():
    broker = StubBroker(fail_fast_default=False)
    dramatiq.set_broker(broker)
    yield broker
    broker.flush_all()
    broker.close()


@pytest.fixture
def stub_worker(stub_broker):
    worker = dramatiq.Worker(stub_broker, worker_timeout=100, worker_threads=32)
    worker.start()
    yield worker
    worker.stop()


@pytest.fixture(params=["redis"])
def rate_limiter_backend():
    return emptied(RateLimiterBackend())


@pytest.fixture(params=["redis"])
def result_backend():
    return emptied(ResultBackend())


def emptied(backend):
    backend.client.flushall()
    return backend
