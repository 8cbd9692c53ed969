"""One of several schedulers leads and starts the jobs that are due.

A scheduler becomes leader with SET NX and an expiry, and renews with a plain SET: after a pause that is longer than the
expiry, the renewal takes the place of the leader that was elected meanwhile, and both start the job.
Keys: lock scheduler/leader, data scheduler/started. The lines marked ! are the evidence.
"""
import multiprocessing
import os
import time

import redis

LEADER, STARTED = "scheduler/leader", "scheduler/started"
LEASE_MS = 300


class Scheduler:
    def __init__(self, name):
        self.name = name
        self.redis = redis.Redis.from_url(os.environ["REDIS_URL"], client_name=name, decode_responses=True)
        self.leads = False

    def campaign(self):
        while not self.leads:
            self.leads = bool(self.redis.set(LEADER, self.name, nx=True, px=LEASE_MS))
            time.sleep(0.02)

    def renew(self):
        self.redis.set(LEADER, self.name, px=LEASE_MS)  # !

    def tick(self, minute):
        if self.leads:
            self.redis.rpush(STARTED, f"{minute} cleanup by {self.name}")  # !


def first(elected, pause_over, done):
    scheduler = Scheduler("sched-1")
    scheduler.campaign()
    elected.set()
    pause_over.wait(5)  # the machine is suspended
    scheduler.renew()
    scheduler.tick("12:00")
    done.set()


def second(elected, pause_over, done):
    scheduler = Scheduler("sched-2")
    elected.wait(5)
    scheduler.campaign()
    pause_over.set()
    done.wait(5)
    scheduler.tick("12:00")


def main():
    events = [multiprocessing.Event() for _ in range(3)]
    schedulers = [multiprocessing.Process(target=part, args=events) for part in (first, second)]
    for process in schedulers:
        process.start()
    for process in schedulers:
        process.join()
    started = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True).lrange(STARTED, 0, -1)
    if len(started) > 1:
        print(f"damage: one job was started {len(started)} times: {', '.join(started)}")


if __name__ == "__main__":
    main()
