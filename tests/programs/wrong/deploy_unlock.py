"""A data migration is held by a worker's lock. The deployment's shell script "clears stale locks" before it starts its own.

It deletes whatever matches the pattern. The worker of the last deployment still migrates, and the new one begins as well.
Keys: locks migration:<table>, data migrated:<table>. The lines marked ! are the evidence.
"""
import os
import subprocess
import sys

import redis

KEY, ROWS = "migration:invoices", "migrated:invoices"
DEPLOY = """redis-cli -u "$REDIS_URL" --scan --pattern 'migration:*' | xargs -n 1 redis-cli -u "$REDIS_URL" DEL"""  # !


def worker(rows):
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    lock = client.lock(KEY, timeout=120)
    if not lock.acquire(blocking=False):  # !
        print("refused", flush=True)
        return
    done = int(client.get(ROWS) or 0)  # !
    print("reading", flush=True)
    sys.stdin.readline()
    client.set(ROWS, done + int(rows))  # !
    try:
        lock.release()
    except redis.exceptions.LockNotOwnedError:
        pass


def start(rows):
    command = [sys.executable, __file__, str(rows)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    return process


def main():
    old = start(400)
    subprocess.run(["sh", "-c", DEPLOY], check=True, stdout=subprocess.DEVNULL)
    new = start(30)
    new.communicate("go\n")
    old.communicate("go\n")
    done = int(redis.Redis.from_url(os.environ["REDIS_URL"]).get(ROWS))
    if done != 430:
        print(f"damage: 430 rows were migrated, {done} are counted")


if __name__ == "__main__":
    worker(sys.argv[1]) if sys.argv[1:] else main()
