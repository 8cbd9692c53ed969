import os

import redis

CLIENT = redis.Redis.from_url(os.environ["REDIS_URL"])
QUEUES = redis.Redis.from_url(os.environ["QUEUES"])
