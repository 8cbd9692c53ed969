"""Wine merchant: two shops take bottles out of one cellar.

Wrong: under the lock a shop reads the stock and computes the new one, but the write is handed to a thread with a
connection of its own, and the lock is released without waiting for it. The write comes when the other shop has sold.
"""
import os
import queue
import threading
from multiprocessing import Event, Process

import redis

URL = os.environ["REDIS_URL"]
LOCK, BOTTLES = "cellar:lock:barolo", "cellar:stock:barolo"


class WriteBehind(threading.Thread):
    """Writes over its own connection, so that the shop need not wait."""

    def __init__(self, may_write):
        super().__init__()
        self.todo, self.may_write = queue.Queue(), may_write

    def run(self):
        r = redis.Redis.from_url(URL, client_name="write-behind")
        while (item := self.todo.get()) is not None:
            self.may_write.wait(15)
            r.set(*item)  # after the release !


def shop(bottles, may_write, released):
    r = redis.Redis.from_url(URL, client_name="shop")
    writer = WriteBehind(may_write)
    writer.start()
    with r.lock(LOCK, timeout=60):
        stock = int(r.get(BOTTLES))
        writer.todo.put((BOTTLES, stock - bottles))
    released.set()  # the write may still be to come !
    writer.todo.put(None)
    writer.join()


def main():
    r = redis.Redis.from_url(URL)
    r.set(BOTTLES, 100)
    slow_disk, first_left = Event(), Event()
    first = Process(target=shop, args=(12, slow_disk, first_left))
    first.start()
    first_left.wait(15)
    at_once, second_left = Event(), Event()
    at_once.set()
    second = Process(target=shop, args=(6, at_once, second_left))
    second.start()
    second.join()
    slow_disk.set()
    first.join()
    stock = int(r.get(BOTTLES))
    if stock != 82:
        print(f"damage: 18 bottles are sold, and the cellar has {stock} of 100")


if __name__ == "__main__":
    main()
