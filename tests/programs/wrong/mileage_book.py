"""A fleet service adds trips to the mileage of its cars: request handlers are threads of one process that share a pool.

Wrong: a handler reads the mileage with HGET, adds the trip in Python and stores the sum with HSET. HINCRBY would do;
two trips of the same car that end together count as one. There is no lock at all.
"""
import os
import threading

import redis

POOL = redis.BlockingConnectionPool.from_url(os.environ["REDIS_URL"], max_connections=4, decode_responses=True)
TRIPS = [("van-3", 12), ("van-3", 40), ("car-8", 7), ("car-8", 5)]
START = {"van-3": 10_000, "car-8": 500}


def end_of_trip(car, km, together, errors):
    try:
        r = redis.Redis(connection_pool=POOL)
        total = int(r.hget(f"fleet:north:{car}", "km"))
        together.wait(15)  # the other trip of this car has been read as well
        r.hset(f"fleet:north:{car}", "km", total + km)  # one of the two sums replaces the other one!
    except Exception as error:
        errors.append(error)


def main():
    r = redis.Redis(connection_pool=POOL)
    for car, km in START.items():
        r.hset(f"fleet:north:{car}", mapping={"km": km, "plate": f"N-{car}"})
    together = {car: threading.Barrier(2) for car in START}
    errors = []
    handlers = [threading.Thread(target=end_of_trip, args=(car, km, together[car], errors)) for car, km in TRIPS]
    for handler in handlers:
        handler.start()
    for handler in handlers:
        handler.join()
    assert not errors, errors

    missing = 0
    for car, km in START.items():
        missing += km + sum(trip for of, trip in TRIPS if of == car) - int(r.hget(f"fleet:north:{car}", "km"))
    print(f"damage: {missing} km of {sum(km for _, km in TRIPS)} were lost" if missing else "ok: every trip counts")


if __name__ == "__main__":
    main()
