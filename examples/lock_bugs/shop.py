"""A small shop: an order reduces the stock of a product, one order at a time."""

from uuid import uuid4


class Busy(Exception):
    """Another order holds the lock of the product; try again later."""


class SoldOut(Exception):
    """The stock is too small for the order."""


class Shop:
    def __init__(self, redis, payments):
        self.redis = redis
        self.payments = payments

    def lock(self, product):
        token = uuid4().hex
        if not self.redis.setnx(f"lock:{product}", token):
            raise Busy(product)
        self.redis.expire(f"lock:{product}", 2)
        return token

    def unlock(self, product, token):
        if self.redis.get(f"lock:{product}") == token:
            self.redis.delete(f"lock:{product}")

    def order(self, product, count):
        token = self.lock(product)
        left = int(self.redis.get(f"stock:{product}") or 0)
        if left < count:
            raise SoldOut(product)
        self.payments.charge(product, count)
        self.redis.set(f"stock:{product}", left - count)
        self.unlock(product, token)
