"""rq's tests connect to the default port; here it leads to the server of the run."""

import os

import redis

connect = redis.connection.Connection.__init__


def connect_to_the_server(self, *args, port=6379, **options):
    connect(self, *args, port=int(os.environ["REDIS_PORT"]) if port == 6379 else port, **options)


redis.connection.Connection.__init__ = connect_to_the_server
