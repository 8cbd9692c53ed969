"""rq's tests connect to the default port; here it is that of the server of the run."""

import functools
import os

import redis

PORT = int(os.environ["REDIS_PORT"])

# Clients hand the port on to the processes that rq starts; pools of the tests' own leave it to the connection.
for made in (redis.Redis, redis.connection.Connection):
    made.__init__ = functools.partialmethod(made.__init__, port=PORT)
