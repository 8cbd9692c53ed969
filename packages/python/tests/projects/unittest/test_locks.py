import unittest

from redouble.unittest import RedoubleMixin


class LockTests(RedoubleMixin, unittest.TestCase):
    def test_the_lock_expires(self):
        client = self.redouble.client()
        client.set("lock:tea", "token", nx=True, px=30_000)
        self.redouble.clock.advance("30.001s")
        self.assertIsNone(client.get("lock:tea"))

    def test_each_test_begins_with_nothing(self):
        self.assertEqual(self.redouble.client().dbsize(), 0)


class ValkeyTests(RedoubleMixin, unittest.IsolatedAsyncioTestCase):
    redouble_options = {"compat": "valkey-9.1"}

    async def test_a_coroutine_has_a_client(self):
        client = self.redouble.async_client()
        self.assertEqual((await client.info("server"))["server_name"], "valkey")


if __name__ == "__main__":
    unittest.main()
