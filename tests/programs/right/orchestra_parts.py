"""Orchestra library: who has the baton may write into the score.

Right: the baton is a token in a list, which a script puts there once, whoever starts first. BLPOP takes it away from
everybody else, and it comes back when the writer is done. It has no expiry, nobody replaces it, and no command is
sent twice by the client, so that there is never a second one.
"""
import json
import os
from multiprocessing import Barrier, Process

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

BATON, SCORE = "orchestra:baton", "orchestra:score"
PREPARE = """
if redis.call('SETNX', KEYS[2], '1') == 1 then
    redis.call('SET', KEYS[3], '[]')
    redis.call('RPUSH', KEYS[1], 'baton')
end
"""


def connect():
    return redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True, retry=Retry(NoBackoff(), 0))


def part(instrument, together):
    r = connect()
    together.wait(15)
    r.eval(PREPARE, 3, BATON, "orchestra:prepared", SCORE)
    for bar in range(1, 5):
        _, baton = r.blpop([BATON], timeout=15)
        score = json.loads(r.get(SCORE))
        score.append([instrument, bar])
        r.set(SCORE, json.dumps(score))
        r.lpush(BATON, baton)


def main():
    instruments = ["viola", "oboe", "horn", "harp"]
    together = Barrier(len(instruments))
    parts = [Process(target=part, args=(name, together)) for name in instruments]
    for process in parts:
        process.start()
    for process in parts:
        process.join()
    score, batons = json.loads(connect().get(SCORE)), connect().llen(BATON)
    assert batons == 1 and sorted(score) == sorted([name, bar] for name in instruments for bar in range(1, 5)), score
    print(f"ok: {len(score)} bars of {len(instruments)} parts, none missing, and one baton")


if __name__ == "__main__":
    main()
