"""Tenants are synchronised by a pool of workers; a set says which are at work.

A worker checks with SISMEMBER whether the tenant is at work, and adds it with SADD without looking at the answer.
Two workers check before either adds, and both import the same rows.
Keys: set sync:active (member: the tenant), data sync:<tenant>:rows. The lines marked ! are the evidence.
"""
import os
import subprocess
import sys

import redis

ACTIVE = "sync:active"


class TenantSync:
    """Synchronises one tenant, unless somebody is at it."""

    def __init__(self, client, tenant):
        self.client, self.tenant = client, tenant

    def __enter__(self):
        if self.client.sismember(ACTIVE, self.tenant):  # !
            raise SystemExit("somebody is at it")
        step("checked")
        self.client.sadd(ACTIVE, self.tenant)  # !
        return self

    def __exit__(self, *_):
        self.client.srem(ACTIVE, self.tenant)

    def run(self, rows):
        key = f"sync:{self.tenant}:rows"
        have = int(self.client.get(key) or 0)  # !
        step("read")
        self.client.set(key, have + rows)  # !


def step(text):
    print(text, flush=True)
    sys.stdin.readline()


def worker(rows):
    with TenantSync(redis.Redis.from_url(os.environ["REDIS_URL"]), "acme") as sync:
        sync.run(rows)


def main():
    workers = [
        subprocess.Popen(
            [sys.executable, __file__, rows], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        for rows in ("30", "12")
    ]
    for expected in ("checked\n", "read\n"):
        for process in workers:
            assert process.stdout.readline() == expected
        for process in workers:
            process.stdin.write("\n")
    for process in workers:
        process.stdin.close()
        process.wait()
    rows = int(redis.Redis.from_url(os.environ["REDIS_URL"]).get("sync:acme:rows"))
    if rows != 42:
        print(f"damage: 42 rows were imported, the tenant has {rows}")


if __name__ == "__main__":
    worker(int(sys.argv[1])) if sys.argv[1:] else main()
