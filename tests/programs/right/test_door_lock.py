"""Unit tests of a small lock, as they stand in a project. They put values there themselves and move the time of keys.

The tests write a foreign token into the lock, let a key expire, and delete keys between the tests. None of it is a
mistake: the test is every party, one after the other.
Keys: lock door.
"""
import io
import os
import secrets
import unittest

import redis

URL = os.environ["REDIS_URL"]


class DoorLock:
    RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"

    def __init__(self, client, key="door", ttl_ms=5000):
        self.client, self.key, self.ttl_ms, self.token = client, key, ttl_ms, None

    def acquire(self):
        token = secrets.token_hex(16)
        if self.client.set(self.key, token, nx=True, px=self.ttl_ms):
            self.token = token
        return self.token is not None

    def release(self):
        token, self.token = self.token, None
        return token is not None and self.client.eval(self.RELEASE, 1, self.key, token) == 1


class DoorLockTest(unittest.TestCase):
    def setUp(self):
        self.client = redis.Redis.from_url(URL, decode_responses=True)
        self.client.delete("door")

    def test_is_refused_while_somebody_holds(self):
        self.client.set("door", "somebody else", px=5000)
        self.assertFalse(DoorLock(self.client).acquire())
        self.assertEqual(self.client.get("door"), "somebody else")

    def test_leaves_the_hold_of_somebody_else(self):
        lock = DoorLock(self.client)
        self.assertTrue(lock.acquire())
        self.client.set("door", "somebody else")  # as if the lease were over and another one had come
        self.assertFalse(lock.release())
        self.assertEqual(self.client.get("door"), "somebody else")

    def test_can_be_taken_after_the_expiry(self):
        self.assertTrue(DoorLock(self.client).acquire())
        self.client.pexpire("door", 1)
        while self.client.exists("door"):
            pass
        self.assertTrue(DoorLock(self.client).acquire())

    def test_has_an_expiry(self):
        DoorLock(self.client, ttl_ms=7000).acquire()
        self.assertGreater(self.client.pttl("door"), 5000)

    def test_two_locks_of_one_process_exclude_each_other(self):
        first, second = DoorLock(self.client), DoorLock(redis.Redis.from_url(URL))
        self.assertTrue(first.acquire())
        self.assertFalse(second.acquire())
        self.assertTrue(first.release())
        self.assertTrue(second.acquire())
        self.assertTrue(second.release())


if __name__ == "__main__":
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(DoorLockTest)
    result = unittest.TextTestRunner(stream=io.StringIO()).run(suite)
    assert result.wasSuccessful(), result.failures + result.errors
    print(f"ok: {result.testsRun} tests of the lock passed")
