"""A backup that cron starts on three machines: a shell script with redis-cli, and a lock as documented.

Each command is a redis-cli of its own, so the process that takes the lock is not the one that writes, nor the one that releases. The
script skips its turn when it is refused, counts under the lock, and releases with a script that compares the token.
Keys: lock backup:db, data backup:generation.
"""
import os
import subprocess

SCRIPT = """
rc() { redis-cli -u "$REDIS_URL" "$@"; }
token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \\n')
while [ "$(rc SET backup:db "$token" NX EX 120)" != OK ]; do
  [ "$1" = patient ] || { echo skipped; exit 0; }
  sleep 0.05
done
echo inside
[ "$1" = patient ] || read go
generation=$(rc GET backup:generation)
rc SET backup:generation $((${generation:-0} + 1)) >/dev/null
rc EVAL "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end" 1 backup:db "$token" >/dev/null
"""


def start(manner):
    command = ["sh", "-c", SCRIPT, "backup.sh", manner]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def main():
    first = start("hasty")
    assert first.stdout.readline() == "inside\n"
    second, third = start("hasty"), start("patient")
    assert second.communicate()[0] == "skipped\n"
    first.communicate("go\n")
    assert third.communicate()[0] == "inside\n"
    said = subprocess.run(["redis-cli", "-u", os.environ["REDIS_URL"], "GET", "backup:generation"], capture_output=True, text=True)
    assert said.stdout.strip() == "2", said.stdout
    print("ok: of three scripts two made a backup, one after the other, and one skipped its turn")


if __name__ == "__main__":
    main()
