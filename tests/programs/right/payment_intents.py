"""A payment with an idempotency key is charged once, however often the client repeats its request.

The first request claims the key with SET NX before it charges, and puts the answer in its place afterwards. Repetitions
find the claim and wait for the answer. The claim is never released: the key stays for a day as the record of the payment.
Keys: idempotency:<key>, list charges.
"""
import json
import os
import threading
import time
import uuid

import redis

pool = redis.BlockingConnectionPool.from_url(os.environ["REDIS_URL"], max_connections=8)
KEEP = 86_400


def charge(client, customer, cents):
    time.sleep(0.03)  # the bank
    client.rpush("charges", f"{customer}:{cents}")
    return {"status": "paid", "cents": cents}


def request(key, customer, cents):
    client = redis.Redis(connection_pool=pool)
    record = f"idempotency:{key}"
    if client.set(record, json.dumps({"status": "pending"}), nx=True, ex=KEEP):
        answer = charge(client, customer, cents)
        client.set(record, json.dumps(answer), xx=True, ex=KEEP)
        return answer
    while (answer := json.loads(client.get(record)))["status"] == "pending":
        time.sleep(0.005)
    return answer


def main():
    keys = [str(uuid.uuid4()) for _ in range(3)]
    answers, start = [], threading.Barrier(6, timeout=5)

    def browser(key, cents):
        start.wait()
        answers.append(request(key, "c-1", cents)["cents"])

    browsers = [threading.Thread(target=browser, args=(key, 100 * (n + 1))) for n, key in enumerate(keys) for _ in "ab"]
    for thread in browsers:
        thread.start()
    for thread in browsers:
        thread.join()
    charges = redis.Redis(connection_pool=pool).lrange("charges", 0, -1)
    assert sorted(charges) == [b"c-1:100", b"c-1:200", b"c-1:300"], charges
    assert sorted(answers) == [100, 100, 200, 200, 300, 300], answers
    print("ok: six requests with three keys were charged three times")


if __name__ == "__main__":
    main()
