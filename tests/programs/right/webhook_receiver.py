"""Webhooks come several times. A receiver notes the event's id with SET NX, does the work, and notes that it is done.

Work that fails removes the note, so that the sender's next try is done again; by whichever receiver gets it. A note that is
there already is answered with 200 or, while the work is going on, with 409.
Keys: hook:<event>, data hook:credits by INCRBY.
"""
import http.server
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import redis


class Receiver(http.server.BaseHTTPRequestHandler):
    client = None

    def do_POST(self):
        _, event, amount, manner = self.path.split("/")
        note = f"hook:{event}"
        if not self.client.set(note, "working", nx=True, ex=3600):
            code = 200 if self.client.get(note) == "done" else 409
        elif manner == "fails":
            self.client.delete(note)
            code = 500
        else:
            pipe = self.client.pipeline(transaction=True)
            pipe.incrby("hook:credits", int(amount))
            pipe.set(note, "done", ex=3600)
            pipe.execute()
            code = 201
        self.send_response(code)
        self.end_headers()

    def log_message(self, *_):
        pass


def serve():
    Receiver.client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    print(server.server_port, flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), server.shutdown()), daemon=True).start()
    server.serve_forever()


def post(port, path):
    try:
        with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/{path}", method="POST")) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def main():
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    receivers = [subprocess.Popen([sys.executable, __file__, "serve"], **pipes) for _ in range(2)]
    one, two = (int(receiver.stdout.readline()) for receiver in receivers)
    assert [post(one, "e1/50/works"), post(two, "e1/50/works"), post(one, "e1/50/works")] == [201, 200, 200]
    assert [post(one, "e2/7/fails"), post(two, "e2/7/works"), post(one, "e2/7/works")] == [500, 201, 200]
    codes = []
    senders = [threading.Thread(target=lambda port=port: codes.append(post(port, "e3/100/works"))) for port in (one, two) * 3]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert codes.count(201) == 1, codes
    credits = int(redis.Redis.from_url(os.environ["REDIS_URL"]).get("hook:credits"))
    assert credits == 157, credits
    for receiver in receivers:
        receiver.communicate()
    print("ok: three events came twelve times and were credited once each")


if __name__ == "__main__":
    serve() if sys.argv[1:] else main()
