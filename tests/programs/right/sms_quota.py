"""Messages per minute: shell scripts count with redis-cli, a service with a pipeline, and both refuse above the limit.

The first one to count gives the counter its expiry; in the service in one transaction with EXPIRE NX, in the scripts with a
second command, which each of them sends if there is none yet.
Keys: sms:minute:<number>, at most five that are told to send.
"""
import os
import subprocess

import redis

SCRIPT = """
rc() { redis-cli -u "$REDIS_URL" "$@"; }
count=$(rc INCR sms:minute:29)
[ "$(rc TTL sms:minute:29)" -ge 0 ] || rc EXPIRE sms:minute:29 60 >/dev/null
[ "$count" -le 5 ] && echo sent || echo refused
"""


def service(client):
    pipe = client.pipeline(transaction=True)
    pipe.incr("sms:minute:29")
    pipe.expire("sms:minute:29", 60, nx=True)
    count, _ = pipe.execute()
    return "sent" if count <= 5 else "refused"


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    scripts = [subprocess.Popen(["sh", "-c", SCRIPT], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = [service(client) for _ in range(4)]
    said += [script.communicate()[0].strip() for script in scripts]
    assert sorted(said) == ["refused"] * 3 + ["sent"] * 5, said
    assert 0 < client.ttl("sms:minute:29") <= 60
    client.delete("sms:minute:29")  # support resets the quota
    assert service(client) == "sent"
    print("ok: five of eight messages were sent in a minute, and one more after the quota was reset")


if __name__ == "__main__":
    main()
