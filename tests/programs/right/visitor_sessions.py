"""Sessions of a web site, written by whichever server gets the request.

A session begins with HSETNX by the first request, its fields are set by others, each field by one kind of request, its life is
prolonged by each, and it ends with DEL. Two tabs of one visitor may be served at once; what they set last holds, as in a browser.
Keys: visitor:<id>. Visits are counted with HINCRBY.
"""
import http.server
import os
import subprocess
import sys
import threading
import urllib.request

import redis


class Site(http.server.BaseHTTPRequestHandler):
    client = None

    def do_GET(self):
        _, visitor, page, *rest = self.path.split("/")
        key = f"visitor:{visitor}"
        if page == "logout":
            self.client.delete(key)
        else:
            self.client.hsetnx(key, "since", self.path)
            visits = self.client.hincrby(key, "visits", 1)
            if page == "theme":
                self.client.hset(key, "theme", rest[0])
            if page == "language":
                self.client.hset(key, "language", rest[0])
            self.client.expire(key, 1800)
        body = " ".join(f"{name}={value}" for name, value in sorted(self.client.hgetall(key).items())) or "nobody"
        if page not in ("logout", "who"):
            body = str(visits)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


def serve():
    Site.client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    print(server.server_port, flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), server.shutdown()), daemon=True).start()
    server.serve_forever()


def main():
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    servers = [subprocess.Popen([sys.executable, __file__, "serve"], **pipes) for _ in range(2)]
    ports = [int(server.stdout.readline()) for server in servers]

    def get(server, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{ports[server]}/{path}") as answer:
            return answer.read().decode()

    tabs = [threading.Thread(target=get, args=(number % 2, f"kim/home/{number}")) for number in range(6)]
    for tab in tabs:
        tab.start()
    for tab in tabs:
        tab.join()
    get(0, "kim/theme/dark"), get(1, "kim/language/fr"), get(1, "kim/theme/light")
    said = get(0, "kim/who")
    assert "language=fr" in said and "theme=light" in said and "visits=10" in said, said
    assert get(1, "kim/logout") == "nobody"
    assert get(0, "kim/home") == "1"
    for server in servers:
        server.communicate()
    print("ok: ten visits are counted, and each setting is the last one")


if __name__ == "__main__":
    serve() if sys.argv[1:] else main()
