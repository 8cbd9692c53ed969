"""Tests of the shop. They pass in spite of its lock bugs."""

import os
import unittest

from redis import Redis

from shop import Busy, Shop, SoldOut


def connect(name):
    return Redis.from_url(os.environ["REDIS_URL"], client_name=name, decode_responses=True)


class Payments:
    """A bank that calls a function while it charges."""

    def __init__(self, meanwhile=lambda: None):
        self.meanwhile = meanwhile

    def charge(self, product, count):
        self.meanwhile()


class Orders(unittest.TestCase):
    def setUp(self):
        self.redis = connect("test")
        self.addCleanup(self.redis.close)

    def shop(self, name, meanwhile=lambda: None):
        redis = connect(name)
        self.addCleanup(redis.close)
        return Shop(redis, Payments(meanwhile))

    def test_an_order_takes_from_the_stock(self):
        self.redis.set("stock:tea", 5)
        self.shop("web-1").order("tea", 2)
        self.assertEqual(self.redis.get("stock:tea"), "3")

    def test_two_orders_at_once_do_not_sell_the_same_cup(self):
        def meanwhile():
            with self.assertRaises(Busy):
                other.order("cup", 1)

        self.redis.set("stock:cup", 1)
        other = self.shop("web-2")
        self.shop("web-1", meanwhile).order("cup", 1)
        self.assertEqual(self.redis.get("stock:cup"), "0")

    def test_the_bank_may_take_its_time(self):
        def meanwhile():
            # Move the server's clock by three seconds; the test itself does not wait.
            self.redis.execute_command("REDOUBLE CLOCK ADVANCE", "3s")

        self.redis.set("stock:pot", 5)
        self.shop("web-1", meanwhile).order("pot", 1)
        self.assertEqual(self.redis.get("stock:pot"), "4")

    def test_what_is_sold_out_cannot_be_ordered(self):
        with self.assertRaises(SoldOut):
            self.shop("web-1").order("jug", 1)


if __name__ == "__main__":
    unittest.main()
