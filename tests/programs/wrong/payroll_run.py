"""The payroll is run by one clerk at a time, with the Lock of redis-py.

acquire() with a blocking timeout returns False when the time is over. Nobody looks at the answer, and the error that
release() raises for a lock that was never owned is swallowed: the second run happens inside the first.
Keys: lock payroll:2024-05, data payroll:2024-05:paid. The lines marked ! are the evidence.
"""
import multiprocessing
import os

import redis
from redis.exceptions import LockError

LOCK, PAID = "payroll:2024-05", "payroll:2024-05:paid"


def run_payroll(amounts, has_read, may_pay):
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    lock = client.lock(LOCK, timeout=30)
    lock.acquire(blocking_timeout=0.15)  # !
    try:
        paid = int(client.get(PAID) or 0)  # !
        has_read.set()
        may_pay.wait(5)
        client.set(PAID, paid + sum(amounts))  # !
    finally:
        try:
            lock.release()
        except LockError:
            pass


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    first_reads, second_is_done, second_reads, at_once = (multiprocessing.Event() for _ in range(4))
    at_once.set()
    first = multiprocessing.Process(target=run_payroll, args=([2100, 1900], first_reads, second_is_done))
    second = multiprocessing.Process(target=run_payroll, args=([3000], second_reads, at_once))
    first.start()
    first_reads.wait(5)
    second.start()
    second.join()
    second_is_done.set()
    first.join()
    paid = int(client.get(PAID))
    if paid != 7000:
        print(f"damage: 7000 were paid out, the books say {paid}")


if __name__ == "__main__":
    main()
