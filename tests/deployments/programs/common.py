"""What the Python programs share: where the deployment is, the lines that they print, and the load.

A program prints a line for each operation, `name: result`, and then `-- load`. Its workers write until a line comes in, and a
line `.` tells that they got on. Then it prints what each of them wrote, and after `-- after` what it reads now."""

import asyncio
import os
import sys
import threading
import time

WORKERS = 4
KEYS = 97
PROTOCOL = int(os.environ.get("PROTOCOL", "2"))
SERVICE = os.environ.get("REDIS_SENTINEL_SERVICE")


def addresses(name):
    pairs = [address.rsplit(":", 1) for address in os.environ[name].split(",")]
    return [(host, int(port)) for host, port in pairs]


def is_known(host, port):
    """Whether an address is one of those that the program was given."""
    return (host, int(port)) in addresses("REDIS_CLUSTER_NODES")


def show(name, result):
    print(f"{name}: {result!r}", flush=True)


def error_of(run):
    try:
        return run()
    except Exception as error:
        return type(error).__name__, str(error)


async def error_of_async(awaitable):
    try:
        return await awaitable
    except Exception as error:
        return type(error).__name__, str(error)


def print_written(written):
    for worker, (last, unknown) in enumerate(written):
        print(f"worker {worker} {last} unknown {' '.join(map(str, unknown))}", flush=True)
    print("-- after", flush=True)


def load(write):
    """Runs workers that call `write(key, number)` with numbers that go up, until a line comes in."""
    print("-- load", flush=True)
    is_over = threading.Event()
    written = [None] * WORKERS

    def work(worker):
        number, unknown = 0, []
        while not is_over.is_set():
            number += 1
            try:
                write(f"w{worker}:{number % KEYS}", number)
            except Exception as error:
                unknown.append(number)
                print(f"error {worker} {number} {type(error).__name__}: {error}", file=sys.stderr)
                time.sleep(0.05)
            if number % 200 == 0:
                print(".", flush=True)
            time.sleep(0.001)
        written[worker] = number, unknown

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(WORKERS)]
    for thread in threads:
        thread.start()
    sys.stdin.readline()
    is_over.set()
    for thread in threads:
        thread.join()
    print_written(written)


async def load_async(write):
    """The same with tasks."""
    print("-- load", flush=True)
    over = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)

    async def work(worker):
        number, unknown = 0, []
        while not over.done():
            number += 1
            try:
                await write(f"w{worker}:{number % KEYS}", number)
            except Exception as error:
                unknown.append(number)
                print(f"error {worker} {number} {type(error).__name__}: {error}", file=sys.stderr)
                await asyncio.sleep(0.05)
            if number % 200 == 0:
                print(".", flush=True)
            await asyncio.sleep(0.001)
        return number, unknown

    print_written(await asyncio.gather(*(work(worker) for worker in range(WORKERS))))


RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
