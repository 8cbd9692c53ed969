"""redis-cli -c, one process for the operations and one for each worker."""

import os
import subprocess
import sys
import threading
import time

from common import KEYS, PROTOCOL, RELEASE, WORKERS, addresses, is_known, print_written, show


def redis_cli(*arguments, **options):
    host, port = addresses("REDIS_CLUSTER_NODES")[0]
    command = ["redis-cli", "-c", f"-{PROTOCOL}", "-h", host, "-p", str(port), *arguments]
    environment = {**os.environ, "REDISCLI_HISTFILE": "/dev/null"}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, **options)


def said(commands):
    process = redis_cli("--no-raw")
    output, _ = process.communicate("".join(command + "\n" for command in commands), timeout=60)
    lines = output.splitlines()
    for at, line in enumerate(lines):
        # The address is the deployment's, or the front's.
        if "redirected to slot" in line.lower():
            before, address = line.rsplit(" at ", 1)
            lines[at] = f"{before} at {'a node' if is_known(*address.rsplit(':', 1)) else address}"
    return lines


show("strings", said([f"SET key:{number} {number}" for number in range(50)]))
show("read", said([f"GET key:{number}" for number in range(50)]))
show("values", said(["INCR counter", "HSET hash a 1 b 2", "HGETALL hash", "LPUSH hash 1", "MSET a 1 b 2", "GET none"]))
show("transaction", said(["SET {tag}a 1", "MULTI", "INCR {tag}a", "GET {tag}a", "EXEC"]))
show("script", said(['EVAL "return redis.call(\'GET\', KEYS[1])" 1 counter', 'EVAL "return 1" 2 a b']))
show("lock", said(["SET lock token NX PX 30000", "SET lock other NX PX 30000", f'EVAL "{RELEASE}" 1 lock token']))
show("pop", said(["BLPOP queue 0.1", "RPUSH queue element", "BLPOP queue 1"]))
show("keyslot", said(["CLUSTER KEYSLOT counter", "CLUSTER COUNTKEYSINSLOT 6680"]))
nodes = [line.split()[1].split("@")[0] for line in redis_cli("CLUSTER", "NODES").communicate()[0].splitlines() if line]
show("nodes", [len(nodes), all(is_known(*address.rsplit(":", 1)) for address in nodes)])

print("-- load", flush=True)
is_over = threading.Event()
written = [None] * WORKERS


def work(worker):
    number, unknown = 0, []
    process = redis_cli("--raw", stderr=subprocess.STDOUT)
    while not is_over.is_set():
        number += 1
        key = f"w{worker}:{number % KEYS}"
        for command in (f"RPUSH {key} {number}", f"INCR n{key}"):
            process.stdin.write(command + "\n")
            process.stdin.flush()
            answer = process.stdout.readline().rstrip("\n")
            while answer.startswith("->"):
                answer = process.stdout.readline().rstrip("\n")
            if not answer.isdecimal():
                # It answers an error, or nothing when it ends. An error's line may be followed by an empty one.
                unknown.append(number)
                print(f"error {worker} {number} {answer}", file=sys.stderr)
                process.kill()
                process.wait()
                time.sleep(0.05)
                process = redis_cli("--raw", stderr=subprocess.STDOUT)
                break
        if number % 200 == 0:
            print(".", flush=True)
        time.sleep(0.001)
    process.stdin.close()
    process.wait()
    written[worker] = number, unknown


threads = [threading.Thread(target=work, args=(worker,)) for worker in range(WORKERS)]
for thread in threads:
    thread.start()
sys.stdin.readline()
is_over.set()
for thread in threads:
    thread.join()
print_written(written)
show("read", said([f"GET key:{number}" for number in range(50)]) != [])
show("values", [line for line in said(["GET counter", "HGETALL hash", "GET {tag}a"]) if not line.startswith("->")])
