"""Tests of a small lock class, as its package has them. The tests put holds of others there themselves, and delete
them.

Right: nothing works under these locks. What a test puts, changes or removes is what the next line looks at.
"""
import os
import sys
import time
import unittest
import uuid

import redis

r = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


class Hinge:
    """A lock with a lease."""

    LEAVE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
    RENEW = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"

    def __init__(self, name, lease=60_000):
        self.key, self.lease, self.token = f"hinge:{name}", lease, uuid.uuid4().hex

    def take(self):
        return bool(r.set(self.key, self.token, nx=True, px=self.lease))

    def renew(self):
        return bool(r.eval(self.RENEW, 1, self.key, self.token, self.lease))

    def leave(self):
        return bool(r.eval(self.LEAVE, 1, self.key, self.token))


class HingeTest(unittest.TestCase):
    def setUp(self):
        r.delete("hinge:door")
        self.hinge = Hinge("door")

    def test_is_taken_and_left(self):
        self.assertTrue(self.hinge.take())
        self.assertEqual(r.get("hinge:door"), self.hinge.token)
        self.assertTrue(self.hinge.leave())
        self.assertIsNone(r.get("hinge:door"))

    def test_is_refused_while_somebody_has_it(self):
        r.set("hinge:door", "somebody")
        self.assertFalse(self.hinge.take())
        r.delete("hinge:door")
        self.assertTrue(self.hinge.take())

    def test_leaves_the_hold_of_another(self):
        self.hinge.take()
        r.set("hinge:door", "another")
        self.assertFalse(self.hinge.leave())
        self.assertEqual(r.get("hinge:door"), "another")

    def test_is_told_that_it_is_lost(self):
        self.hinge.take()
        r.delete("hinge:door")
        self.assertFalse(self.hinge.renew())
        self.assertFalse(r.exists("hinge:door"))

    def test_is_free_after_its_lease(self):
        self.hinge.take()
        r.pexpire("hinge:door", 1)
        while r.exists("hinge:door"):
            time.sleep(0.01)
        late = Hinge("door")
        self.assertTrue(late.take())
        self.assertFalse(self.hinge.leave())
        self.assertTrue(late.leave())

    def test_is_renewed(self):
        self.hinge.take()
        r.pexpire("hinge:door", 30_000)
        self.assertTrue(self.hinge.renew())
        self.assertGreater(r.pttl("hinge:door"), 30_000)


result = unittest.TextTestRunner(stream=sys.stderr).run(unittest.defaultTestLoader.loadTestsFromTestCase(HingeTest))
if not result.wasSuccessful():
    sys.exit(1)
print(f"ok: {result.testsRun} tests of a lock pass")
