"""Archive: shell scripts move boxes to the next shelf, each on its own machine.

Right: the new shelf is written by one EVAL that looks first whether the lock still has the script's token. A script
that was stopped for longer than its lease writes nothing, releases nothing, and says so.
"""
import os
import subprocess
import time

SCRIPT = r"""
set -euo pipefail
ask() { redis-cli -u "$REDIS_URL" --raw "$@"; }
token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
until [ "$(ask SET archive:lock "$token" NX PX "$LEASE")" = OK ]; do sleep 0.05; done

shelf=$(ask GET archive:shelf)
echo "at $shelf"
read -r _

moved=$(ask EVAL "
    if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
    redis.call('SET', KEYS[2], ARGV[2])
    return 1" 2 archive:lock archive:shelf "$token" "$shelf>$BOX")
left=$(ask EVAL "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0" \
    1 archive:lock "$token")
echo "$moved $left"
"""


def redis(*words):
    command = ["redis-cli", "-u", os.environ["REDIS_URL"], "--raw", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def script(box, lease):
    env = dict(os.environ, BOX=box, LEASE=str(lease))
    child = subprocess.Popen(["bash", "-c", SCRIPT], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline().startswith("at ")
    return child


def end(child):
    said, _ = child.communicate("\n")
    assert child.returncode == 0
    return said.strip()


redis("SET", "archive:shelf", "cellar")
stopped = script("maps", 300)
time.sleep(0.4)
second = script("letters", 60000)
said = [end(stopped), end(second)]
third = script("diaries", 60000)
said.append(end(third))
shelf = redis("GET", "archive:shelf")
assert said == ["0 0", "1 1", "1 1"] and shelf == "cellar>letters>diaries", (said, shelf)
assert redis("EXISTS", "archive:lock") == "0"
print(f"ok: the stopped script moved nothing, the others did: {shelf}")
