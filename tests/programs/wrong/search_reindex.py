"""A rebuild of the search index behind a lock whose value is its expiry, as SETNX's page describes it.

If the time in the lock is over, a worker stores its own with GETSET. The algorithm asks to compare what GETSET returned
with the old time: only one of two sees it. This code ignores the reply, so both workers that found the lock old go on.
Keys: lock search:reindex, data search:documents. The lines marked ! are the evidence.
"""
import os
import subprocess
import sys
import time

import redis

LOCK, DOCUMENTS = "search:reindex", "search:documents"
LEASE = 30


def acquire(client):
    if client.setnx(LOCK, time.time() + LEASE):
        return True
    expires = client.get(LOCK)  # !
    if expires is not None and float(expires) < time.time():
        tell("expired")
        client.getset(LOCK, time.time() + LEASE)  # !
        return True
    return False


def tell(word):
    print(word, flush=True)
    sys.stdin.readline()


def reindex(count):
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    if not acquire(client):
        return
    indexed = int(client.get(DOCUMENTS) or 0)  # !
    tell("inside")
    client.set(DOCUMENTS, indexed + count)  # !
    if float(client.get(LOCK) or 0) > time.time():
        client.delete(LOCK)


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    client.setnx(LOCK, time.time() - 1)  # a worker that died
    arguments = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    workers = [subprocess.Popen([sys.executable, __file__, count], **arguments) for count in ("10", "20")]
    for word in ("expired\n", "inside\n"):
        for worker in workers:
            assert worker.stdout.readline() == word
        for worker in workers:
            worker.stdin.write("\n")
            if word == "inside\n":
                worker.communicate()
    documents = int(client.get(DOCUMENTS))
    if documents != 30:
        print(f"damage: 30 documents were indexed by two workers at once, {documents} are counted")


if __name__ == "__main__":
    reindex(int(sys.argv[1])) if sys.argv[1:] else main()
