"""Toll road: refunds come over HTTP, and each has an Idempotency-Key, so that a retry does not pay twice.

Wrong: the server looks for the key with GET, pays, and writes the key after that. The driver's app repeats the
request while the first one is still being worked on, the other server finds no key, and the refund is paid twice.
"""
import os
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import Barrier, Pipe, Process

import redis

ACCOUNT = "toll:account:K-2231"


def serve(port, both):
    r = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)

    class Refunds(BaseHTTPRequestHandler):
        def do_POST(self):
            cents = int(self.rfile.read(int(self.headers["Content-Length"])))
            key = "toll:refund:" + self.headers["Idempotency-Key"]
            answer = r.get(key)
            both.wait(15)
            if answer is None:
                answer = f"paid, balance {r.incrby(ACCOUNT, cents)}"
                r.set(key, answer, ex=86400)  # too late to claim anything !
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refunds)
    port.send(server.server_port)
    server.serve_forever()


def post(port):
    headers = {"Idempotency-Key": "7f1c0e52-aa10", "Content-Type": "text/plain"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/refunds", data=b"450", headers=headers)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=15) as reply:
        reply.read()


def main():
    r = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    r.set(ACCOUNT, 1000)
    both, servers = Barrier(2), []
    for _ in range(2):
        here, there = Pipe()
        process = Process(target=serve, args=(there, both), daemon=True)
        process.start()
        servers.append((process, here.recv()))
    requests = [threading.Thread(target=post, args=(port,)) for _, port in servers]
    for request in requests:
        request.start()
    for request in requests:
        request.join()
    for process, _ in servers:
        process.terminate()
        process.join()
    balance = int(r.get(ACCOUNT))
    if balance != 1450:
        print(f"damage: one refund of 450 was paid as {balance - 1000}")


if __name__ == "__main__":
    main()
