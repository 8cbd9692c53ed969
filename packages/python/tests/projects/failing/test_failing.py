import pytest


def take_twice(redouble):
    one, two = redouble.client(client_name="one"), redouble.client(client_name="two")
    assert one.set("lock:cup", "8fd1c5ab07e3", nx=True, px=30_000)
    assert not two.set("lock:cup", "77aa0bc2d1ef", nx=True, px=30_000)
    two.delete("lock:cup")


def test_before(redouble):
    redouble.client().set("before", "it")


def test_misuse(redouble):
    take_twice(redouble)


def test_after(redouble):
    redouble.client().set("after", "it")


def test_failure(redouble):
    take_twice(redouble)
    assert redouble.client().get("cup") == b"tea"


@pytest.fixture
def cup(redouble):
    yield redouble.client(client_name="fixture")
    take_twice(redouble)


def test_misuse_at_the_end(cup):
    cup.set("harmless", "it")


def test_unfired(redouble):
    redouble.fault("close-after", on="SET")
