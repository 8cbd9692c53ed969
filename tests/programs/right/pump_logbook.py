"""Three hosts write the logbook of a pump with a shell script and redis-cli, and number the entries.

The lock is SETNX on lock.pump.3, without an expiry, and the script deletes it only when it has got it itself. So nobody comes in
beside a slow one. A script that is killed leaves the lock where it is: then nobody writes until somebody has looked.
"""
import os
import subprocess

SCRIPT = r"""
set -eu
cli() { redis-cli -e -u "$REDIS_URL" --raw "$@"; }
for entry in 1 2 3 4; do
    until [ "$(cli SETNX lock.pump.3 "$HOST_NAME")" = 1 ]; do sleep 0.01; done
    number=$(cli GET pump:3:entries)
    cli RPUSH pump:3:logbook "$((number + 1)) $HOST_NAME/$entry" >/dev/null
    cli SET pump:3:entries "$((number + 1))" >/dev/null
    cli DEL lock.pump.3 >/dev/null
done
"""
HOSTS = ["scada-1", "scada-2", "scada-3"]


def cli(*words):
    call = ["redis-cli", "-u", os.environ["REDIS_URL"], "--raw", *words]
    return subprocess.run(call, check=True, capture_output=True, text=True).stdout.strip()


def main():
    cli("SET", "pump:3:entries", "0")
    scripts = [subprocess.Popen(["sh", "-c", SCRIPT], env=dict(os.environ, HOST_NAME=host)) for host in HOSTS]
    assert [script.wait(18) for script in scripts] == [0] * len(HOSTS)
    logbook = [line.split() for line in cli("LRANGE", "pump:3:logbook", "0", "-1").splitlines()]
    numbers, entries = [int(line[0]) for line in logbook], {line[1] for line in logbook}
    good = numbers == list(range(1, 13)) and entries == {f"{host}/{entry}" for host in HOSTS for entry in range(1, 5)}
    print("ok: 12 entries have the numbers 1 to 12" if good else f"damage: numbers {numbers}, {len(entries)} entries")


main()
