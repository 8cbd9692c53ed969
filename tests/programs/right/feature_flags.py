"""Feature flags: deployments declare them, operators switch them, servers read them at each request.

A deployment declares a flag with SET NX. Operators switch with SET or SET XX, and whoever cleans up deletes a flag that
another one has declared. A flag says what was decided last; it protects nothing and belongs to nobody.
Keys: flag:<name>.
"""
import multiprocessing
import os

import redis


def connect():
    return redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


def deploy(version, flags, done):
    client = connect()
    for flag in flags:
        client.set(f"flag:{flag}", "off", nx=True)
    client.sadd("flags:known", *flags)
    done.put(version)


def operate(commands, seen):
    client = connect()
    for flag, value in commands:
        client.set(f"flag:{flag}", value, xx=True)
        seen.put((flag, client.get(f"flag:{flag}")))


def clean_up(flag):
    client = connect()
    client.delete(f"flag:{flag}")
    client.srem("flags:known", flag)


def run(target, *arguments):
    process = multiprocessing.Process(target=target, args=arguments)
    process.start()
    return process


def main():
    done, seen = multiprocessing.Queue(), multiprocessing.Queue()
    deployments = [run(deploy, version, ["new-cart", "fast-search"], done) for version in ("v1", "v2", "v3")]
    assert {done.get(timeout=5) for _ in deployments} == {"v1", "v2", "v3"}
    run(operate, [("new-cart", "on"), ("fast-search", "10%")], seen).join()
    run(deploy, "v4", ["new-cart", "fast-search", "dark-mode"], done).join()
    run(operate, [("fast-search", "100%")], seen).join()
    run(clean_up, "new-cart").join()

    client = connect()
    flags = {flag: client.get(f"flag:{flag}") for flag in client.smembers("flags:known")}
    assert flags == {"fast-search": "100%", "dark-mode": "off"}, flags
    assert client.get("flag:new-cart") is None
    print("ok: four deployments left what the operators had switched")


if __name__ == "__main__":
    main()
