import os

import app


def test_the_program_has_found_the_server():
    assert app.CLIENT.ping() and app.QUEUES.set("key", "value")
    assert not app.CLIENT.exists("key")
    assert os.environ["REDIS_PORT"] in os.environ["REDIS_URL"]


def test_misuse():
    app.CLIENT.client_setname("one")
    assert app.CLIENT.set("lock:cup", "8fd1c5ab07e3", nx=True, px=30_000)
    app.QUEUES.connection_pool.disconnect()
    other = type(app.CLIENT).from_url(os.environ["REDIS_URL"], client_name="two")
    assert not other.set("lock:cup", "77aa0bc2d1ef", nx=True, px=30_000)
    other.delete("lock:cup")
    other.close()


def test_after():
    assert app.CLIENT.set("after", "it")
