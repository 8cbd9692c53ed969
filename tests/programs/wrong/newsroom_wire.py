"""Newsroom: editors change the lead of the wire; a shell script sweeps locks that have no expiry.

Wrong: the lock is SETNX, and its expiry comes as a second command. Between the two the sweeper takes it for what a
crashed editor has left behind and deletes it. The next editor comes in while the first one is inside.
"""
import os
import subprocess
import sys

import redis

LOCK, LEAD = "wire:lock:lead", "wire:lead"
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) end"
SWEEPER = r"""
redis-cli -u "$REDIS_URL" --scan --pattern 'wire:lock:*' | while read -r lock; do
    if [ "$(redis-cli -u "$REDIS_URL" TTL "$lock")" = -1 ]; then
        redis-cli -u "$REDIS_URL" DEL "$lock" >/dev/null   # its editor is alive !
    fi
done
"""


def pause(word):
    print(word, flush=True)
    sys.stdin.readline()


def editor(sentence):
    r = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    if not r.setnx(LOCK, sentence):
        sys.exit("refused")
    pause("before the expiry")
    r.expire(LOCK, 120)  # of the next one's lock, perhaps !
    lead = r.get(LEAD)
    pause("inside")
    r.set(LEAD, f"{lead} {sentence}.")
    r.eval(RELEASE, 1, LOCK, sentence)


def main():
    r = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    r.set(LEAD, "Flood warning.")
    editors = []
    for sentence in ("Bridges closed", "Schools open"):
        child = subprocess.Popen(
            [sys.executable, __file__, sentence], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        child.stdout.readline()
        editors.append(child)
        if len(editors) == 1:
            subprocess.run(["bash", "-c", SWEEPER], check=True)
    for child in editors:
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "inside\n"
    for child in editors:
        child.communicate("\n")
    lead = r.get(LEAD)
    for sentence in ("Bridges closed", "Schools open"):
        if sentence not in lead:
            print(f"damage: two editors at once, and {sentence!r} is not in the lead: {lead}")


editor(sys.argv[1]) if len(sys.argv) > 1 else main()
