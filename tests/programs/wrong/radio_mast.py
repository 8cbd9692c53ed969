"""Studios of a radio station share a mast. The studio on air holds the mast's key and extends it while it sends.

Wrong: the key is extended with SET XX PX. That succeeds if anybody holds the mast: a studio whose lease was over replaces
the hold of the next one, and both write the programme of the mast.
"""
import multiprocessing
import os
import time

import redis

HOLD, AIRED = "mast:hill:on_air", "mast:hill:aired"


def connect():
    return redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


def studio_with_a_gap(on_air, other_has_read, written):
    r, name = connect(), f"studio-a-{os.getpid()}"
    assert r.set(HOLD, name, nx=True, px=300)
    on_air.set()
    assert other_has_read.wait(15)
    if r.set(HOLD, name, xx=True, px=60_000):  # replaces the hold of the other studio!
        aired = r.get(AIRED)
        r.set(AIRED, aired + "A")  # two are on air!
    written.set()


def next_studio(on_air, other_has_read, written):
    r, name = connect(), f"studio-b-{os.getpid()}"
    assert on_air.wait(15)
    while not r.set(HOLD, name, nx=True, px=60_000):
        time.sleep(0.02)
    aired = r.get(AIRED)
    other_has_read.set()
    assert written.wait(15)
    r.set(AIRED, aired + "B")  # what the first studio sent is not listed any more!


def main():
    r = connect()
    r.set(AIRED, ".")
    spawn = multiprocessing.get_context("spawn")
    on_air, other_has_read, written = spawn.Event(), spawn.Event(), spawn.Event()
    studios = [spawn.Process(target=studio, args=(on_air, other_has_read, written))
               for studio in (studio_with_a_gap, next_studio)]
    for process in studios:
        process.start()
    for process in studios:
        process.join(15)
        assert process.exitcode == 0
    aired, holder = r.get(AIRED), r.get(HOLD)
    if sorted(aired) != [".", "A", "B"]:
        print(f"damage: two studios were on air, {len(aired) - 1} of 2 programmes is listed, the mast is held by {holder[:8]}")
    else:
        print("ok: both programmes are listed")


if __name__ == "__main__":
    main()
