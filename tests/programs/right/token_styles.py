"""Many short holds of many locks, each with a random token of 128 bits or more in another alphabet.

base64, URL-safe base64, hex, decimal, base32, UUIDs with and without dashes, and the 21 characters of a nanoid: all are
unguessable, however few digits or letters a single one happens to have.
Keys: locks ticket:<n>:lock, data ticket:<n>.
"""
import base64
import multiprocessing
import os
import secrets
import string
import time
import uuid

import redis

NANOID = string.ascii_letters + string.digits + "_-"
STYLES = [
    lambda: base64.b64encode(secrets.token_bytes(16)).decode(),
    lambda: secrets.token_urlsafe(16),
    lambda: secrets.token_hex(16),
    lambda: str(secrets.randbits(130)),
    lambda: base64.b32encode(secrets.token_bytes(20)).decode(),
    lambda: str(uuid.uuid4()),
    lambda: uuid.uuid4().hex.upper(),
    lambda: "".join(secrets.choice(NANOID) for _ in range(21)),
    lambda: "".join(secrets.choice(string.ascii_lowercase) for _ in range(28)),
    lambda: f"{os.getpid()}-{secrets.token_hex(16)}",
]
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


def close_tickets(rounds, refused):
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    release = client.register_script(RELEASE)
    for number in range(rounds):
        key, token = f"ticket:{number}", STYLES[number % len(STYLES)]()
        while not client.set(f"{key}:lock", token, nx=True, ex=20):
            with refused.get_lock():
                refused.value += 1
            time.sleep(0.001)
        closed = int(client.get(key) or 0)
        client.set(key, closed + 1)
        assert release(keys=[f"{key}:lock"], args=[token]) == 1


def main():
    rounds, refused = 120, multiprocessing.Value("i", 0)
    clerks = [multiprocessing.Process(target=close_tickets, args=(rounds, refused)) for _ in range(3)]
    for clerk in clerks:
        clerk.start()
    for clerk in clerks:
        clerk.join()
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    counts = {int(value) for value in client.mget([f"ticket:{number}" for number in range(rounds)])}
    assert counts == {3}, counts
    print(f"ok: {rounds} tickets were closed by three clerks in turn, with tokens of {len(STYLES)} styles")


if __name__ == "__main__":
    main()
