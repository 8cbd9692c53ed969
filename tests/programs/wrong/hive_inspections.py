"""Bee yard: two tablets add what they have seen to the sheet of a hive.

Wrong: the sheet is one JSON document that is read, extended and written as a whole, and nothing keeps the other
tablet from writing in between. The sheet ends without one of the two visits.
"""
import json
import os
from multiprocessing import Event, Process

import redis

URL = os.environ["REDIS_URL"]
SHEET = "apiary:hive:17"


def tablet(keeper, finding, has_read, may_write):
    r = redis.Redis.from_url(URL, decode_responses=True)
    sheet = json.loads(r.get(SHEET))
    has_read.set()
    may_write.wait(15)
    sheet["visits"].append({"by": keeper, "saw": finding})
    r.set(SHEET, json.dumps(sheet))  # of the sheet as it was at the read !


def main():
    r = redis.Redis.from_url(URL, decode_responses=True)
    r.set(SHEET, json.dumps({"queen": "2024, blue", "visits": []}))

    slow_read, slow_write, quick_read, at_once = Event(), Event(), Event(), Event()
    at_once.set()
    slow = Process(target=tablet, args=("Ines", "eleven frames of brood", slow_read, slow_write))
    slow.start()
    slow_read.wait(15)
    quick = Process(target=tablet, args=("Rolf", "varroa, two per day", quick_read, at_once))
    quick.start()
    quick.join()
    slow_write.set()
    slow.join()

    seen = [visit["by"] for visit in json.loads(r.get(SHEET))["visits"]]
    for keeper in {"Ines", "Rolf"} - set(seen):
        print(f"damage: the visit of {keeper} is not on the sheet, which has {seen}")


main()
