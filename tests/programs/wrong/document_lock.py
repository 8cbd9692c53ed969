"""A document is edited by one service at a time; the lock is the old one of SETNX's page, lock.foo.

The value is the time at which the lock is over. Whoever finds it over deletes it and tries SETNX again: the very way
that the page warns of. Two services find the dead one's lock; the second DEL deletes what the first one has just taken.
Keys: lock lock.contract-8, data contract-8:text. The lines marked ! are the evidence.
"""
import multiprocessing
import os
import time

import redis

LOCK, TEXT = "lock.contract-8", "contract-8:text"
HOLD_SECONDS = 20


class DocumentLock:
    def __init__(self, client, link):
        self.client, self.link = client, link

    def acquire(self):
        while not self.client.setnx(LOCK, time.time() + HOLD_SECONDS + 1):  # !
            until = self.client.get(LOCK)  # !
            if until and float(until) < time.time():
                self.link.send("over")
                self.link.recv()
                self.client.delete(LOCK)  # !
            else:
                time.sleep(0.05)

    def release(self):
        self.client.delete(LOCK)


def edit(paragraph, link):
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    lock = DocumentLock(client, link)
    lock.acquire()
    text = client.get(TEXT)  # !
    link.send("editing")
    link.recv()
    client.set(TEXT, text + paragraph.encode())  # !
    lock.release()
    link.send("saved")


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    client.set(TEXT, "Preamble.")
    client.setnx(LOCK, time.time() - 5)  # its holder died

    links = []
    for paragraph in (" Price.", " Term."):
        here, there = multiprocessing.Pipe()
        multiprocessing.Process(target=edit, args=(paragraph, there), daemon=True).start()
        assert here.recv() == "over"
        links.append(here)
    for link in links:
        link.send("go on")
        assert link.recv() == "editing"
    for link in links:
        link.send("go on")
        assert link.recv() == "saved"
    text = client.get(TEXT).decode()
    if "Price" not in text:
        print(f"damage: a paragraph is lost, the contract reads: {text}")


if __name__ == "__main__":
    main()
