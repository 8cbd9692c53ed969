"""A coupon is redeemed behind a lock whose release looks first and deletes then.

GET says that the token is one's own; before DEL arrives the lease is over and somebody else holds. DEL removes that
hold, and a third customer is let in beside it: the last coupon is redeemed twice.
Keys: lock coupon:<code>:mutex, data coupon:<code>:left. The lines marked ! are the evidence.
"""
import os
import secrets
import subprocess
import sys
import time

import redis

MUTEX, LEFT = "coupon:SUMMER:mutex", "coupon:SUMMER:left"


def pause(word):
    print(word, flush=True)
    sys.stdin.readline()


def redeem(customer):
    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    token = secrets.token_hex(16)
    while not client.set(MUTEX, token, nx=True, px=600):  # !
        time.sleep(0.02)
    try:
        left = int(client.get(LEFT))  # !
        if customer != "browser":
            pause("looked")
            if left > 0:
                client.set(LEFT, left - 1)  # !
                client.rpush("coupon:SUMMER:redeemed", customer)
    finally:
        if client.get(MUTEX) == token:  # !
            if customer == "browser":
                pause("mine")
            client.delete(MUTEX)  # !
    print("released", flush=True)


def start(customer, until):
    process = subprocess.Popen(
        [sys.executable, __file__, customer], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert process.stdout.readline() == until
    return process


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    client.set(LEFT, 1)
    browser = start("browser", "mine\n")
    ada = start("ada", "looked\n")
    browser.communicate("go on\n")
    bob = start("bob", "looked\n")
    ada.communicate("go on\n")
    bob.communicate("go on\n")
    redeemed = client.lrange("coupon:SUMMER:redeemed", 0, -1)
    if len(redeemed) > 1:
        print(f"damage: one coupon was left, {' and '.join(redeemed)} redeemed it")


if __name__ == "__main__":
    redeem(sys.argv[1]) if sys.argv[1:] else main()
