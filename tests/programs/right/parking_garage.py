"""A garage for three cars: a sorted set with the moment at which each permit ends, counted and entered by one script.

The cars of one company come over the pool of one process, others from another process. The set is gone whenever the last car has
left, at night the garage is swept, too, and then other cars come in.
Keys: garage:cars, at most three that know they are inside.
"""
import os
import subprocess
import sys
import threading
import time
import uuid

import redis

CARS = "garage:cars"
ENTER = """
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[1])
if redis.call('ZCARD', KEYS[1]) >= 3 then return 0 end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[3])
return 1"""


def connect():
    return redis.Redis.from_url(os.environ["REDIS_URL"])


class Garage:
    def __init__(self, client):
        self.client, self.enter_script = client, client.register_script(ENTER)

    def enter(self):
        permit, now = str(uuid.uuid4()), time.time()
        return permit if self.enter_script(keys=[CARS], args=[now, now + 600, permit]) else None

    def leave(self, permit):
        return self.client.zrem(CARS, permit)


def company(cars):
    garage, inside = Garage(connect()), []
    for order in sys.stdin:
        if order == "enter\n":
            threads = [threading.Thread(target=lambda: inside.append(garage.enter())) for _ in range(int(cars))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            inside = [permit for permit in inside if permit]
            print(len(inside), flush=True)
        if order == "leave\n":
            print(sum(garage.leave(permit) for permit in inside), flush=True)
            inside.clear()


class Company:
    def __init__(self, cars):
        command = [sys.executable, __file__, str(cars)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, order):
        self.process.stdin.write(f"{order}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


def main():
    bakery, laundry = Company(2), Company(3)
    assert (bakery("enter"), laundry("enter")) == (2, 1)
    assert laundry("leave") == 1 and bakery("leave") == 2
    assert laundry("enter") == 3 and bakery("enter") == 0
    assert laundry("leave") == 3
    connect().delete(CARS)  # the garage is closed for the night, and all cars are out
    assert (bakery("enter"), laundry("enter")) == (2, 1)
    assert bakery("leave") == 2 and laundry("leave") == 1
    for each in (bakery, laundry):
        each.process.communicate()
    print("ok: there were never more than three cars in the garage")


if __name__ == "__main__":
    company(*sys.argv[1:]) if sys.argv[1:] else main()
