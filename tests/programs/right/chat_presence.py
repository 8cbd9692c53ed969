"""Who is online in a chat, over several websocket servers.

Each connection of a user is a member of a set; the first one that comes and the last one that goes are told by a script.
Heartbeats are keys with an expiry that every server overwrites: a newer sign of life replaces an older one.
Keys: sets presence:<user>, heartbeats presence:<user>:seen, list presence:events.
"""
import os
import threading
import time
import uuid

import redis

COME = """
redis.call('SADD', KEYS[1], ARGV[1])
if redis.call('SCARD', KEYS[1]) == 1 then redis.call('RPUSH', KEYS[2], 'online ' .. ARGV[2]) end
"""
GO = """
if redis.call('SREM', KEYS[1], ARGV[1]) == 1 and redis.call('EXISTS', KEYS[1]) == 0 then
    redis.call('RPUSH', KEYS[2], 'offline ' .. ARGV[2])
end
"""


def websocket_server(name, users, start):
    client = redis.Redis.from_url(os.environ["REDIS_URL"], client_name=name)
    come, go = client.register_script(COME), client.register_script(GO)
    connections = {user: uuid.uuid4().hex for user in users}
    start.wait()
    for user, connection in connections.items():
        come(keys=[f"presence:{user}", "presence:events"], args=[connection, user])
    for _ in range(5):
        for user in users:
            client.set(f"presence:{user}:seen", f"{name} {time.time():.3f}", ex=30)
        time.sleep(0.003)
    start.wait()
    for user, connection in connections.items():
        go(keys=[f"presence:{user}", "presence:events"], args=[connection, user])


def main():
    users, start = ["ada", "bob", "cyd"], threading.Barrier(3, timeout=5)
    servers = [threading.Thread(target=websocket_server, args=(f"ws-{n}", users, start)) for n in range(3)]
    for thread in servers:
        thread.start()
    for thread in servers:
        thread.join()
    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    events = client.lrange("presence:events", 0, -1)
    assert sorted(events) == sorted(f"{change} {user}" for user in users for change in ("online", "offline")), events
    assert all(client.exists(f"presence:{user}:seen") for user in users)
    print("ok: three users on three servers came online once and went offline once each")


if __name__ == "__main__":
    main()
