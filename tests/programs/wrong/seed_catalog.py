"""Seed bank: curators change the record of a variety, by WATCH and MULTI.

Wrong: WATCH is sent after the record was read, so that a change between the read and WATCH goes unseen, and EXEC
succeeds with the old germination tests.
"""
import json
import os
import subprocess
import sys

import redis

RECORD = "seeds:variety:emmer"


def curator(name, percent, waits):
    r = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    while True:
        record = json.loads(r.get(RECORD))  # nobody watches yet !
        record["tests"][name] = int(percent)
        if waits == "wait":
            print("read", flush=True)
            sys.stdin.readline()
        with r.pipeline() as transaction:
            transaction.watch(RECORD)  # from here only !
            transaction.multi()
            transaction.set(RECORD, json.dumps(record))
            try:
                transaction.execute()
                return
            except redis.WatchError:
                waits = "no"


def start(*words):
    command = [sys.executable, __file__, *words]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def main():
    r = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    r.set(RECORD, json.dumps({"harvest": 2019, "tests": {}}))
    slow = start("Oyelaran", "91", "wait")
    slow.stdout.readline()
    start("Petrov", "88", "no").communicate()
    slow.communicate("\n")
    tests = json.loads(r.get(RECORD))["tests"]
    lost = {"Oyelaran", "Petrov"} - set(tests)
    if lost:
        print(f"damage: the test of {', '.join(lost)} is lost, the record has {tests}")


curator(*sys.argv[1:]) if len(sys.argv) > 1 else main()
