"""A payment service makes refunds. A request may come to several gateways, for who asks repeats it until there is an answer.

The first one puts its own mark under the request's key (SET NX, without an expiry). A script makes the refund if the mark is still
there, and puts the answer in its place, in one go. The others wait for the answer. If a gateway dies in between, the mark stays
and the refund is not made until somebody has looked; it is never made twice.
"""
import multiprocessing
import os
import time
import uuid

import redis

REFUND = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local balance = redis.call('INCRBY', KEYS[2], ARGV[2])
redis.call('SET', KEYS[1], 'balance ' .. balance)
return 1
"""
REQUESTS = [(f"req-{number}", 5 + number) for number in range(5)]


def connect():
    return redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


def gateway(together, answers):
    r = connect()
    for request, amount in REQUESTS:
        together.wait(15)
        key, mark = f"refund:{request}", f"pending {uuid.uuid4()}"
        if r.set(key, mark, nx=True):
            r.eval(REFUND, 2, key, "account:311:balance", mark, amount)
        while (answer := r.get(key)).startswith("pending"):
            time.sleep(0.005)
        answers.put((request, answer))


def main():
    r = connect()
    r.set("account:311:balance", 1000)
    spawn = multiprocessing.get_context("spawn")
    together, answers = spawn.Barrier(3), spawn.Queue()
    gateways = [spawn.Process(target=gateway, args=(together, answers)) for _ in range(3)]
    for process in gateways:
        process.start()
    given = [answers.get(timeout=15) for _ in range(3 * len(REQUESTS))]
    for process in gateways:
        process.join(15)
        assert process.exitcode == 0
    balance = int(r.get("account:311:balance"))
    expected = 1000 + sum(amount for _, amount in REQUESTS)
    if balance == expected and len(set(given)) == len(REQUESTS):
        print(f"ok: {len(REQUESTS)} refunds were made once, all gateways gave the same answers")
    else:
        print(f"damage: balance {balance}, expected {expected}, {len(set(given))} answers to {len(REQUESTS)} requests")


if __name__ == "__main__":
    main()
