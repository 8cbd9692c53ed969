"""Weaving mill: designers add rows to the pattern of a loom, one designer at a time.

Wrong: the lock is a counter, and who makes it 1 is inside. The one who is refused tidies up as well: DEL in `finally`
removes the hold of the one who is inside, and a third one comes in.
"""
import os
from multiprocessing import Pipe, Process

import redis

LOCK, ROWS = "loom:4:editing", "loom:4:rows"


class Designer(Process):
    def __init__(self, row):
        super().__init__(name=row)
        self.mill, self.desk = Pipe()
        self.start()

    def run(self):
        r = redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
        try:
            if r.incr(LOCK) != 1:
                self.desk.send("refused")
                return
            r.expire(LOCK, 120)
            rows = r.get(ROWS)
            self.desk.send("inside")
            self.desk.recv()
            r.set(ROWS, f"{rows} {self.name}")
        finally:
            r.delete(LOCK)  # also by the one who was refused !

    def says(self, word):
        assert self.mill.poll(15) and self.mill.recv() == word
        return self


def main():
    r = redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    r.set(ROWS, "twill")
    herringbone = Designer("herringbone").says("inside")
    Designer("basket").says("refused").join()
    satin = Designer("satin").says("inside")
    for designer in (herringbone, satin):
        designer.mill.send("weave")
        designer.join()

    rows = r.get(ROWS)
    missing = {"twill", "herringbone", "satin"} - set(rows.split())
    if missing:
        print(f"damage: two designers at once, and {', '.join(missing)} is not in the pattern: {rows}")


main()
