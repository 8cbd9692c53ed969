"""Museum: translators add their language to the label of an exhibit.

Right: the label is watched before it is read, and written by MULTI and EXEC; who was overtaken starts anew with what
is there then. Nobody's language is lost, whatever the order.
"""
import json
import os
from multiprocessing import Barrier, Process

import redis

LABEL = "museum:label:amphora"
LANGUAGES = {"de": "Amphore", "fr": "Amphore", "el": "Αμφορέας", "fi": "Amfora"}


def translator(language, word, together):
    r = redis.Redis.from_url(os.environ["REDIS_URL"])
    first = True

    def add(pipe):
        nonlocal first
        label = json.loads(pipe.get(LABEL))
        if first:
            first = False
            together.wait(15)  # all have read the same
        label["words"][language] = word
        pipe.multi()
        pipe.set(LABEL, json.dumps(label))

    r.transaction(add, LABEL)


if __name__ == "__main__":
    r = redis.Redis.from_url(os.environ["REDIS_URL"])
    r.set(LABEL, json.dumps({"words": {"en": "Amphora"}}))
    together = Barrier(len(LANGUAGES))
    translators = [Process(target=translator, args=(*item, together)) for item in LANGUAGES.items()]
    for process in translators:
        process.start()
    for process in translators:
        process.join()
    label = json.loads(r.get(LABEL))
    assert label == {"words": {"en": "Amphora", **LANGUAGES}}, label
    print(f"ok: {len(label['words'])} languages on the label, {len(LANGUAGES)} of them added at once")
