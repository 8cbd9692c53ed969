"""Podcasts: feeds are rendered from a database and kept in Redis.

Right: the key of a cached feed has the version of the show that it was rendered from. A server that renders for long
and fills the cache late writes under the old version, where nobody looks any more; two that fill at once write the
same.
"""
import os
import sqlite3
import tempfile
from multiprocessing import Event, Process, SimpleQueue

import redis


class Feeds:
    def __init__(self, path):
        self.db = sqlite3.connect(path, timeout=15, isolation_level=None)
        self.cache = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)

    def feed(self, show, rendering=lambda: None):
        version, title = self.db.execute("SELECT version, title FROM shows WHERE id = ?", (show,)).fetchone()
        key = f"podcast:feed:{show}:v{version}"
        text = self.cache.get(key)
        if text is None:
            rendering()
            text = f"<rss><title>{title}</title></rss>"
            self.cache.set(key, text, ex=600)
        return version, text

    def rename(self, show, title):
        self.db.execute("UPDATE shows SET title = ?, version = version + 1 WHERE id = ?", (title, show))


def server(path, served, has_missed, may_render):
    def rendering():
        has_missed.set()
        may_render.wait(15)

    served.put(Feeds(path).feed("owls", rendering))


def main():
    with tempfile.TemporaryDirectory() as folder:
        path, served = os.path.join(folder, "shows.db"), SimpleQueue()
        here = Feeds(path)
        here.db.execute("CREATE TABLE shows (id TEXT, version INT, title TEXT)")
        here.db.execute("INSERT INTO shows VALUES ('owls', 1, 'Owls at night')")

        may_render, slow = Event(), []
        for _ in range(2):
            has_missed = Event()
            slow.append(Process(target=server, args=(path, served, has_missed, may_render)))
            slow[-1].start()
            assert has_missed.wait(15)
        here.rename("owls", "Owls by day")
        before = here.feed("owls")
        may_render.set()
        for process in slow:
            process.join()
        late = [served.get() for _ in slow]
        after = here.feed("owls")

    new, old = (2, "<rss><title>Owls by day</title></rss>"), (1, "<rss><title>Owls at night</title></rss>")
    assert before == after == new and late == [old, old], (before, late, after)
    print("ok: two late fills, and the feed is that of the new version before and after them")


if __name__ == "__main__":
    main()
