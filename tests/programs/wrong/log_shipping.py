"""Two hosts ship the lines of one log, each with a shell script and redis-cli; the offset says how far they are.

Wrong: the script asks with GET whether somebody ships, and then says with SET that it does. Both scripts ask before one has said it.
The key is removed with DEL by whoever is done, so the first one also removes what the second one has put there.
"""
import os
import subprocess

SCRIPT = r"""
set -eu
cli() { redis-cli -u "$REDIS_URL" --raw "$@"; }
if [ -n "$(cli GET ship:applog:active)" ]; then echo refused; exit 0; fi
echo free; read _
cli SET ship:applog:active "$HOST_NAME" EX 600 >/dev/null  # replaces the other host's entry!
offset=$(cli GET ship:applog:offset)
echo "$offset"; read _
cli RPUSH ship:applog:target "$HOST_NAME sends $offset to $((offset + 100))" >/dev/null
cli SET ship:applog:offset $((offset + 100)) >/dev/null  # both have read the same offset!
cli DEL ship:applog:active >/dev/null
echo done
"""


def start(host):
    return subprocess.Popen(["sh", "-c", SCRIPT], env=dict(os.environ, HOST_NAME=host), text=True, bufsize=1,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def line(process):
    return process.stdout.readline().strip()


def go(process):
    process.stdin.write("go\n")
    process.stdin.flush()


def cli(*words):
    call = ["redis-cli", "-u", os.environ["REDIS_URL"], "--raw", *words]
    return subprocess.run(call, check=True, capture_output=True, text=True).stdout.strip()


def main():
    cli("SET", "ship:applog:offset", "0")
    hosts = [start("web-1"), start("web-2")]
    assert [line(host) for host in hosts] == ["free", "free"]
    for host in hosts:
        go(host)
        assert line(host) == "0"
    for host in hosts:
        go(host)
        assert line(host) == "done" and host.wait(15) == 0
    sent = cli("LRANGE", "ship:applog:target", "0", "-1").splitlines()
    twice = len(sent) - len({entry.split(" ", 1)[1] for entry in sent})
    offset = int(cli("GET", "ship:applog:offset"))
    if twice or offset != 100 * len(sent):
        print(f"damage: {len(sent)} shipments moved the offset to {offset}, {twice} part was sent twice")
    else:
        print("ok: each part was sent once")


main()
