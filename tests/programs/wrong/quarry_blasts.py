"""Quarry: foremen plan blasts, with a lock over three servers.

Wrong: half of the servers, rounded down, is taken for a majority: of three that is one. The foreman of the east side
has his nearest server only and believes to have the lock, while the west side has the other two.
"""
import os
import random
from multiprocessing import Event, Process

import redis

URLS = os.environ["REDIS_URLS"].split(",")
LOCK, PLAN = "quarry:blasting", "quarry:plan"
RELEASE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end"


class QuorumLock:
    def __init__(self, servers, after_each):
        self.servers = servers
        self.after_each = after_each
        self.token = "%032x" % random.SystemRandom().getrandbits(128)
        self.quorum = len(servers) // 2  # and one more would be the majority !

    def acquire(self):
        got = 0
        for number, server in enumerate(self.servers):
            got += bool(server.set(LOCK, self.token, nx=True, px=60_000))
            self.after_each(number)
        if got >= self.quorum:
            return True
        self.release()
        return False

    def release(self):
        for server in self.servers:
            server.eval(RELEASE, 1, LOCK, self.token)


def foreman(side, nearest, asked, next_one, inside, write):
    def after_each(number):
        if number == 0:
            asked.set()
            next_one.wait(15)

    order = sorted(range(3), key=lambda index: abs(index - nearest))
    lock = QuorumLock([redis.Redis.from_url(URLS[index], decode_responses=True) for index in order], after_each)
    book = redis.Redis.from_url(URLS[0], decode_responses=True)
    if not lock.acquire():
        return
    plan = book.get(PLAN)
    inside.set()
    write.wait(15)
    book.set(PLAN, f"{plan}, {side} face 14:00")  # by two foremen at once !
    lock.release()


def main():
    book = redis.Redis.from_url(URLS[0], decode_responses=True)
    book.set(PLAN, "siren 13:50")
    sides = {}
    for side, nearest in (("west", 0), ("east", 2)):
        events = [Event() for _ in range(4)]
        process = Process(target=foreman, args=(side, nearest, *events))
        process.start()
        events[0].wait(15)
        sides[side] = process, *events
    for _, _, next_one, inside, _ in sides.values():  # west gets the middle server, then east gets none more
        next_one.set()
        assert inside.wait(15)
    for process, _, _, _, write in sides.values():
        write.set()
        process.join()
    plan = book.get(PLAN)
    lost = [side for side in sides if side not in plan]
    if lost:
        print(f"damage: two foremen at once, and the {lost[0]} face is not in the plan: {plan}")


if __name__ == "__main__":
    main()
