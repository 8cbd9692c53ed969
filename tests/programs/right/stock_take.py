"""A warehouse is counted while goods move: many movers at a time, or one counter alone. A lock for readers and writers.

Scripts decide: a mover enters if no counter is there, and is a member of a set; the counter enters if the set is empty.
Both marks have an expiry against crashes. The counter's figure must be that of a moment without a movement.
Keys: set yard:movers, lock yard:counter, data yard:a and yard:b.
"""
import multiprocessing
import os
import time
import uuid

import redis

KEYS = ["yard:movers", "yard:counter"]
SCRIPTS = {
    "enter_mover": """
        if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
        redis.call('SADD', KEYS[1], ARGV[1])
        redis.call('PEXPIRE', KEYS[1], ARGV[2])
        return 1""",
    "leave_mover": "return redis.call('SREM', KEYS[1], ARGV[1])",
    "enter_counter": """
        if redis.call('SCARD', KEYS[1]) > 0 then return 0 end
        return redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0""",
    "leave_counter": "if redis.call('GET', KEYS[2]) == ARGV[1] then return redis.call('DEL', KEYS[2]) end return 0",
}


class Yard:
    def __init__(self):
        self.client = redis.Redis.from_url(os.environ["REDIS_URL"])
        self.scripts = {name: self.client.register_script(text) for name, text in SCRIPTS.items()}

    def within(self, role, work):
        me = uuid.uuid4().hex
        while not self.scripts[f"enter_{role}"](keys=KEYS, args=[me, 30_000]):
            time.sleep(0.002)
        try:
            return work()
        finally:
            assert self.scripts[f"leave_{role}"](keys=KEYS, args=[me]) == 1

    def move(self):
        self.client.decr("yard:a")
        time.sleep(0.001)
        self.client.incr("yard:b")

    def count(self):
        return sum(int(self.client.get(key)) for key in ("yard:a", "yard:b"))


def mover(moves):
    yard = Yard()
    for _ in range(moves):
        yard.within("mover", yard.move)
        time.sleep(0.003)


def counter(counts, figures):
    yard = Yard()
    for _ in range(counts):
        figures.put(yard.within("counter", yard.count))
        time.sleep(0.004)


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    client.mset({"yard:a": 500, "yard:b": 100})
    figures = multiprocessing.Queue()
    parties = [multiprocessing.Process(target=mover, args=(25,)) for _ in range(3)]
    parties.append(multiprocessing.Process(target=counter, args=(10, figures)))
    for process in parties:
        process.start()
    counted = {figures.get(timeout=10) for _ in range(10)}
    for process in parties:
        process.join()
        assert process.exitcode == 0
    assert counted == {600} and client.mget("yard:a", "yard:b") == [b"425", b"175"], counted
    print("ok: ten counts between 75 movements found 600 pieces each")


if __name__ == "__main__":
    main()
