"""The tests of a small mutex class. They put holds of "somebody" there by hand, shorten them, and take them away again.

The keys that a case uses belong to the case; the mutex itself takes with SET NX PX and a token, and releases and extends with scripts
that compare.
"""
import os
import secrets
import time
import unittest

import redis

RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
EXTEND = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"


class Mutex:
    def __init__(self, client, name, milliseconds):
        self.client, self.key, self.milliseconds = client, f"mutex:{name}", milliseconds
        self.token = None

    def take(self):
        token = secrets.token_urlsafe(16)
        if self.client.set(self.key, token, nx=True, px=self.milliseconds):
            self.token = token
            return True
        return False

    def extend(self):
        return self.client.eval(EXTEND, 1, self.key, self.token, self.milliseconds) == 1

    def release(self):
        return self.client.eval(RELEASE, 1, self.key, self.token) == 1


class Cases(unittest.TestCase):
    def setUp(self):
        self.by_hand = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
        self.client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
        self.by_hand.delete("mutex:case")
        self.mutex = Mutex(self.client, "case", 60_000)

    def tearDown(self):
        self.by_hand.delete("mutex:case")
        self.by_hand.close()
        self.client.close()

    def test_refused_while_somebody_has_it(self):
        self.by_hand.set("mutex:case", "somebody")
        self.assertFalse(self.mutex.take())
        self.by_hand.delete("mutex:case")
        self.assertTrue(self.mutex.take())
        self.assertTrue(self.mutex.release())

    def test_taken_when_the_other_hold_is_over(self):
        self.by_hand.set("mutex:case", "somebody", px=300)
        while not self.mutex.take():
            time.sleep(0.02)
        self.assertEqual(self.by_hand.get("mutex:case"), self.mutex.token)
        self.assertTrue(self.mutex.release())

    def test_release_leaves_the_hold_of_another(self):
        self.assertTrue(self.mutex.take())
        self.by_hand.set("mutex:case", "somebody", px=60_000)
        self.assertFalse(self.mutex.release())
        self.assertEqual(self.by_hand.get("mutex:case"), "somebody")

    def test_extend_after_the_end(self):
        self.assertTrue(self.mutex.take())
        self.by_hand.pexpire("mutex:case", 1)
        while self.by_hand.exists("mutex:case"):
            time.sleep(0.01)
        self.assertFalse(self.mutex.extend())
        self.assertFalse(self.by_hand.exists("mutex:case"))

    def test_second_take_is_refused(self):
        second = Mutex(self.client, "case", 60_000)
        self.assertTrue(self.mutex.take())
        self.assertFalse(second.take())
        self.assertTrue(self.mutex.extend())
        self.assertTrue(self.mutex.release())
        self.assertTrue(second.take())
        self.assertTrue(second.release())


result = unittest.TextTestRunner(verbosity=0).run(unittest.defaultTestLoader.loadTestsFromTestCase(Cases))
bad = len(result.failures) + len(result.errors)
print(f"damage: {bad} of {result.testsRun} cases fail" if bad else f"ok: {result.testsRun} cases pass")
