import time
from datetime import datetime, timedelta, timezone

import pytest
import redis


def test_a_lock_expires_while_its_holder_works(redouble):
    lock = redouble.client().lock("lock:tea", timeout=30)
    assert lock.acquire(blocking=False)
    redouble.clock.advance("30.001s")
    with pytest.raises(redis.exceptions.LockNotOwnedError):
        lock.release()


@pytest.mark.parametrize("length", ["30s", 30, 30.0, timedelta(seconds=30), "30000ms", "0.5m"])
def test_a_length_of_time_is_text_seconds_or_a_timedelta(redouble, length):
    client = redouble.client()
    redouble.clock.freeze()
    client.set("lock", "token", px=30_000)
    redouble.clock.advance(length)
    assert client.pttl("lock") == 0
    redouble.clock.advance("1ms")
    assert client.get("lock") is None


def test_the_clock_stands_until_the_block_ends(redouble):
    noon = datetime(2038, 1, 19, 12, tzinfo=timezone.utc)
    with redouble.clock.freeze(noon) as clock:
        assert clock.now() == noon.timestamp()
        assert redouble.client().time() == (int(noon.timestamp()), 0)
        assert clock.info().mode == "frozen"
    assert redouble.clock.info().mode == "running"


def test_an_hour_passes_while_every_client_waits(redouble):
    client = redouble.client(socket_timeout=None)
    redouble.clock.auto()
    began = time.monotonic()
    assert client.blpop("nothing", timeout=3600) is None
    assert time.monotonic() - began < 60


def test_the_clock_of_the_next_test_runs_again(redouble):
    assert abs(redouble.clock.now() - time.time()) < 60
    redouble.clock.set(0)
    redouble.clock.speed(2)
    assert redouble.clock.info().speed == 2
    redouble.clock.resume()
    assert redouble.clock.now() < 60
