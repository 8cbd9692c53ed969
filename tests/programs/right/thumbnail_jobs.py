"""A small job queue: a list of ids, a list of those in work, and a hash for each job that workers create, change and remove.

A job is claimed by moving its id from list to list, which one command does. Its hash is written by whoever has the job: by the
producer, then by a worker, and after that worker's death by another one. A finished job's hash is removed.
Keys: thumbs:waiting, thumbs:working, data thumbs:job:<id> and thumbs:done.
"""
import os
import subprocess
import sys

import redis


def connect():
    return redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


def worker(name, dies_at):
    client = connect()
    while (job := client.lmove("thumbs:waiting", "thumbs:working", "LEFT", "RIGHT")) is not None:
        key = f"thumbs:job:{job}"
        client.hsetnx(key, "first-started-by", name)
        client.hset(key, mapping={"state": "working", "worker": name, "tries": int(client.hget(key, "tries") or 0) + 1})
        if job == dies_at:
            os._exit(9)
        pipe = client.pipeline(transaction=True)
        pipe.lrem("thumbs:working", 1, job)
        pipe.incr("thumbs:done")
        pipe.delete(key)
        pipe.execute()


def reaper():
    client = connect()
    while (job := client.lmove("thumbs:working", "thumbs:waiting", "LEFT", "LEFT")) is not None:
        client.hset(f"thumbs:job:{job}", "state", "waiting")


def start(*words):
    return subprocess.Popen([sys.executable, __file__, *words])


def main():
    client = connect()
    for number in range(8):
        job = f"j{number}"
        client.hset(f"thumbs:job:{job}", mapping={"state": "waiting", "picture": f"{number}.png"})
        client.rpush("thumbs:waiting", job)
    assert start("worker", "w1", "j3").wait() == 9
    left = client.hgetall("thumbs:job:j3")
    assert (left["state"], left["worker"]) == ("working", "w1"), left
    start("reaper").wait()
    workers = [start("worker", name, "none") for name in ("w2", "w3")]
    assert [each.wait() for each in workers] == [0, 0]
    assert int(client.get("thumbs:done")) == 8 and not client.keys("thumbs:job:*")
    print("ok: eight jobs were done once each, one of them by a second worker after the first had died")


if __name__ == "__main__":
    {"worker": worker, "reaper": reaper}[sys.argv[1]](*sys.argv[2:]) if sys.argv[1:] else main()
