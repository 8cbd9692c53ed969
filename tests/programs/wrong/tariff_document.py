"""Two desks of an electricity supplier edit the tariff of a tenant, one JSON document in one key.

Wrong: each desk gets the whole document, changes its own field, and sets the whole document. There is no lock, no WATCH
and no version, so the desk that sets last takes back what the other one has just saved.
"""
import json
import multiprocessing
import os
import secrets

import redis


def desk(name, tenant, field, value, has_read, may_save, saved):
    r = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    key = f"{tenant}:tariff:current"
    document = json.loads(r.get(key))
    has_read.set()
    assert may_save.wait(15)
    document[field] = value
    document["changed_by"] = name
    r.set(key, json.dumps(document))  # computed from a document that is no longer the newest!
    saved.set()


def main():
    r = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    tenant = "tenant-" + secrets.token_hex(6)
    r.set(f"{tenant}:tariff:current", json.dumps({"base_fee": 900, "unit_price": 31, "changed_by": "import"}))

    spawn = multiprocessing.get_context("spawn")
    fee_read, price_read, fee_saved, price_saved = (spawn.Event() for _ in range(4))
    both_read = spawn.Event()
    desks = [
        spawn.Process(target=desk, args=("fees", tenant, "base_fee", 950, fee_read, both_read, fee_saved)),
        spawn.Process(target=desk, args=("prices", tenant, "unit_price", 34, price_read, fee_saved, price_saved)),
    ]
    for process in desks:
        process.start()
    assert fee_read.wait(15) and price_read.wait(15)
    both_read.set()
    for process in desks:
        process.join(15)
        assert process.exitcode == 0

    final = json.loads(r.get(f"{tenant}:tariff:current"))
    lost = [f"{field} {final[field]} instead of {value}" for field, value in
            (("base_fee", 950), ("unit_price", 34)) if final[field] != value]
    print(f"damage: saved and gone: {', '.join(lost)}" if lost else "ok: both changes are there")


if __name__ == "__main__":
    main()
