"""Payment events arrive more than once; each must be credited once.

The receiver asks with EXISTS whether an event is known, credits it, and marks it known afterwards. A repetition that
arrives while the first delivery is being credited is credited, too.
Keys: lock-like marks webhook:seen:<event>, data merchant:<id>:credit. The lines marked ! are the evidence.
"""
import http.server
import os
import threading
import urllib.request
from multiprocessing import Barrier, Process, Queue

import redis


def credit_once(client, event, barrier):
    seen = f"webhook:seen:{event}"
    if client.exists(seen):  # !
        return "known"
    barrier.wait()
    client.incrby("merchant:5:credit", 4990)  # !
    client.set(seen, "1", ex=86_400)  # !
    return "credited"


def receiver(ports, barrier):
    client = redis.Redis.from_url(os.environ["REDIS_URL"])

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            answer = credit_once(client, self.path.strip("/"), barrier).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    ports.put(server.server_port)
    server.handle_request()


def deliver(port, answers):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/evt_981", data=b"{}", method="POST")
    with urllib.request.urlopen(request, timeout=5) as answer:
        answers.append(answer.read().decode())


def main():
    ports, barrier, answers = Queue(), Barrier(2, timeout=5), []
    receivers = [Process(target=receiver, args=(ports, barrier)) for _ in range(2)]
    for process in receivers:
        process.start()
    deliveries = [threading.Thread(target=deliver, args=(ports.get(timeout=5), answers)) for _ in receivers]
    for thread in deliveries:
        thread.start()
    for thread in deliveries:
        thread.join()
    for process in receivers:
        process.join()
    credit = int(redis.Redis.from_url(os.environ["REDIS_URL"]).get("merchant:5:credit"))
    if credit > 4990:
        print(f"damage: one payment of 4990 was credited {answers.count('credited')} times, the credit is {credit}")


if __name__ == "__main__":
    main()
