"""Tide tables are computed by one of two hosts, which holds a lease and writes the table at the end.

The computation takes longer than the lease. In this run the other host comes only after the table was written, so nothing is
lost; the write itself comes when the lease is over and nobody knows who holds.
Keys: lock tides:lease, data tides:table and tides:edition. The lines marked ! are the evidence.
"""
import multiprocessing
import os
import time
import uuid

import redis

LEASE, LEASE_MS = "tides:lease", 300
END = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


class Forecast:
    def __init__(self, host):
        self.redis = redis.Redis.from_url(os.environ["REDIS_URL"], client_name=host, decode_responses=True)
        self.token = f"{host}:{uuid.uuid4()}"

    def __enter__(self):
        while not self.redis.set(LEASE, self.token, nx=True, px=LEASE_MS):  # !
            time.sleep(0.02)
        self.since = time.monotonic()
        return self

    def __exit__(self, *_):
        self.was_held = self.redis.eval(END, 1, LEASE, self.token) == 1

    def publish(self, seconds):
        edition = int(self.redis.get("tides:edition") or 0)  # !
        time.sleep(seconds)  # computes
        self.late_ms = (time.monotonic() - self.since) * 1000 - LEASE_MS
        self.redis.hset("tides:table", mapping={"high": "04:12", "low": "10:31"})  # !
        self.redis.set("tides:edition", edition + 1)  # !


def host(name, seconds, answers):
    with Forecast(name) as forecast:
        forecast.publish(seconds)
    answers.put((name, forecast.was_held, forecast.late_ms))


def main():
    answers = multiprocessing.Queue()
    for name, seconds in (("slow", 0.45), ("quick", 0)):
        process = multiprocessing.Process(target=host, args=(name, seconds, answers))
        process.start()
        process.join()
    name, was_held, late_ms = answers.get(timeout=2)
    if not was_held and late_ms > 0:
        print(f"would: {name} wrote the table {late_ms:.0f} ms after its lease was over, over whatever another host had written")


if __name__ == "__main__":
    main()
