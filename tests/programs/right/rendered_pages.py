"""A cache of rendered pages in front of a database, filled by whoever needs a page first.

The page is stored with SET NX EX, so the first renderer wins and the others use its copy. An editor changes the article
in the database first and deletes the page afterwards, without asking who wrote it: a cache belongs to nobody.
Keys: page:<slug>. The truth is in the database.
"""
import os
import sqlite3
import tempfile
import threading

import redis


class Site:
    def __init__(self, path):
        self.path, self.cache = path, redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)

    def article(self, slug):
        with sqlite3.connect(self.path) as database:
            return database.execute("SELECT text FROM articles WHERE slug = ?", (slug,)).fetchone()[0]

    def page(self, slug):
        cached = self.cache.get(f"page:{slug}")
        if cached is not None:
            return cached
        html = f"<p>{self.article(slug)}</p>"
        self.cache.set(f"page:{slug}", html, nx=True, ex=300)
        return html

    def edit(self, slug, text):
        with sqlite3.connect(self.path) as database:
            database.execute("UPDATE articles SET text = ? WHERE slug = ?", (text, slug))
        self.cache.delete(f"page:{slug}")


def visit(site, start, seen):
    start.wait()
    for _ in range(5):
        seen.append(site.page("news"))


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "site.db")
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE articles (slug TEXT, text TEXT)")
            database.execute("INSERT INTO articles VALUES ('news', 'old')")

        pages = []
        for text in ("old", "new", "newest"):
            if text != "old":
                Site(path).edit("news", text)
            start, seen = threading.Barrier(4), []
            visitors = [threading.Thread(target=visit, args=(Site(path), start, seen)) for _ in range(4)]
            for visitor in visitors:
                visitor.start()
            for visitor in visitors:
                visitor.join()
            pages.append(set(seen))
        assert pages == [{"<p>old</p>"}, {"<p>new</p>"}, {"<p>newest</p>"}], pages
        print("ok: 60 visits saw the newest text of their time")


if __name__ == "__main__":
    main()
