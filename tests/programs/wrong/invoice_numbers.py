"""Invoice numbers without gaps, given out behind a lock that is a counter.

INCR gives 1 to whoever holds; everybody else counts back with DECR. The counter has an expiry against crashes. A clerk
that is slower than the expiry counts down the counter of the next holder, and a third clerk gets 1 while that one works.
Keys: lock invoices:busy, data invoices:last. The lines marked ! are the evidence.
"""
import multiprocessing
import os
import time

import redis

BUSY, LAST = "invoices:busy", "invoices:last"


def enter(client):
    if client.incr(BUSY) == 1:  # !
        client.pexpire(BUSY, 400)
        return True
    client.decr(BUSY)
    return False


def leave(client):
    client.decr(BUSY)  # !


def clerk(name, link):
    client = redis.Redis.from_url(os.environ["REDIS_URL"], client_name=f"clerk-{name}")
    while not enter(client):
        time.sleep(max(client.pttl(BUSY), 0) / 1000 + 0.02)
    number = int(client.get(LAST)) + 1  # !
    link.send(name)
    link.recv()
    client.set(LAST, number)  # !
    leave(client)
    link.send(number)


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    client.set(LAST, 1000)
    context = multiprocessing.get_context("fork")

    def start(name):
        here, there = context.Pipe()
        context.Process(target=clerk, args=(name, there), daemon=True).start()
        assert here.recv() == name
        return here

    def finish(link):
        link.send("go")
        return link.recv()

    slow = start("slow")
    second = start("second")  # gets in when the counter of the slow one has expired
    numbers = [finish(slow)]  # counts the counter of the second one down
    third = start("third")
    numbers += [finish(second), finish(third)]
    if len(set(numbers)) < 3:
        print(f"damage: three invoices have the numbers {numbers}")


if __name__ == "__main__":
    main()
