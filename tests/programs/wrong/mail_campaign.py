"""A campaign is mailed by one of several workers, until the end of its sending window.

One script takes the lock and sets its expiry to the end of the window. A worker that starts after the window passes a
negative number of seconds. EXPIRE with a negative time deletes the key at once, the script answers that it took the
lock, and so it answers the next worker as well.
Keys: lock campaign:<id>:sender, data campaign:<id>:sent. The lines marked ! are the evidence.
"""
import multiprocessing
import os
import time
import uuid

import redis

CLAIM = """
local taken = redis.call('SETNX', KEYS[1], ARGV[1])
if taken == 1 then
    redis.call('EXPIRE', KEYS[1], ARGV[2])
end
return taken
"""
RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end"


def send_campaign(campaign, window_end, barrier):
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    claim, release = client.register_script(CLAIM), client.register_script(RELEASE)
    lock, token = f"campaign:{campaign}:sender", uuid.uuid4().hex
    seconds = int(window_end - time.time())
    if claim(keys=[lock], args=[token, seconds]) != 1:  # !
        barrier.abort()
        return
    barrier.wait()  # both have been told that they hold
    for address in ("ann@example.org", "bea@example.org"):
        client.rpush(f"campaign:{campaign}:sent", address)  # !
    release(keys=[lock], args=[token])


def main():
    window_end = time.time() - 20
    barrier = multiprocessing.Barrier(2, timeout=5)
    workers = [multiprocessing.Process(target=send_campaign, args=("spring", window_end, barrier)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    sent = redis.Redis.from_url(os.environ["REDIS_URL"]).lrange("campaign:spring:sent", 0, -1)
    twice = {address.decode() for address in sent if sent.count(address) > 1}
    if twice:
        print(f"damage: {len(twice)} people got the campaign twice, both workers held the lock")


if __name__ == "__main__":
    main()
