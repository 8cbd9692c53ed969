"""A harbour office assigns berths. Each radio channel is a thread with a connection of its own.

Wrong: a berth is closed for other channels by a key, and the key is made by EXISTS and then SET with an expiry. Two channels that
ask together both see no key and both go in; each rewrites the list of calls from the state that it read.
"""
import json
import os
import threading

import redis

URL = os.environ["REDIS_URL"]
asked, inside, errors = threading.Barrier(2), threading.Barrier(2), []


def channel(name, ship):
    try:
        r = redis.Redis.from_url(URL, decode_responses=True)
        r.ping()
        if r.exists("pier:4:berth:2:busy"):
            raise RuntimeError("the berth was free at the beginning")
        asked.wait(15)
        r.set("pier:4:berth:2:busy", name, ex=120)  # both come here: nothing refuses the second one!
        calls = json.loads(r.get("pier:4:berth:2:calls"))
        inside.wait(15)
        r.set("pier:4:berth:2:calls", json.dumps(calls + [ship]))  # without the other channel's ship!
        if r.get("pier:4:berth:2:busy") == name:
            r.delete("pier:4:berth:2:busy")
    except Exception as error:
        errors.append(error)


def main():
    r = redis.Redis.from_url(URL, decode_responses=True)
    r.set("pier:4:berth:2:calls", json.dumps(["Amrum"]))
    channels = [threading.Thread(target=channel, args=pair) for pair in (("vhf-11", "Hallig"), ("vhf-14", "Pellworm"))]
    for thread in channels:
        thread.start()
    for thread in channels:
        thread.join()
    assert not errors, errors
    calls = json.loads(r.get("pier:4:berth:2:calls"))
    lost = [ship for ship in ("Amrum", "Hallig", "Pellworm") if ship not in calls]
    print(f"damage: the call of {', '.join(lost)} is not in the list" if lost else "ok: all calls are listed")


main()
