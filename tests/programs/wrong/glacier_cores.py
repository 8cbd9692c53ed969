"""Glacier station: shell scripts on the drill's machine write down how deep the core is.

Wrong: a script releases by a plain DEL. Its lease was over long ago, what it deletes is the hold of the second
script, and a third one works beside that one.
"""
import os
import subprocess
import time

SCRIPT = r"""
set -eu
redis() { redis-cli -u "$REDIS_URL" --raw "$@"; }
until [ "$(redis SET drill:lock "$NAME" NX PX "$LEASE")" = OK ]; do sleep 0.05; done
depth=$(redis GET drill:depth)
echo inside
read -r _
[ -z "$METRES" ] || redis SET drill:depth $((depth + METRES)) >/dev/null
redis DEL drill:lock >/dev/null   # whoever's it is !
echo gone
"""


def redis(*words):
    command = ["redis-cli", "-u", os.environ["REDIS_URL"], "--raw", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def script(name, lease, metres):
    env = dict(os.environ, NAME=name, LEASE=str(lease), METRES=str(metres))
    child = subprocess.Popen(["bash", "-c", SCRIPT], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "inside\n"
    return child


def goes_on(child):
    said, _ = child.communicate("\n")
    assert said == "gone\n" and child.returncode == 0


redis("SET", "drill:depth", "120")
survey = script("survey", 300, "")  # looks only, and takes its time over it
time.sleep(0.4)
day = script("day shift", 60000, 3)
goes_on(survey)
night = script("night shift", 60000, 4)
goes_on(day)
goes_on(night)
depth = int(redis("GET", "drill:depth"))
if depth != 127:
    print(f"damage: 7 m were drilled by two shifts at once, and the book has {depth - 120} m more")
