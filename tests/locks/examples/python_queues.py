"""arq, huey, dramatiq, rq-scheduler, django-rq and saq: jobs with results, retries and schedules, for workers in processes of
their own."""
import asyncio
import logging
import signal
import threading
import time
from datetime import timedelta
from urllib.parse import urlsplit

from redis import Redis

from processes import URL, done, join, play, start

WHERE = urlsplit(URL)
redis = Redis.from_url(URL)


def wait_for(what, wanted):
    """Waits until the workers have counted so far."""
    while int(redis.get(what) or 0) < wanted:
        time.sleep(0.02)


# arq

async def download(context, number):
    await context["redis"].incr("arq")
    return number


async def unsteady(context):
    from arq import Retry

    if context["job_try"] == 1:
        raise Retry(defer=0.1)
    await context["redis"].incr("arq")


async def tick(context):
    await context["redis"].incr("arq-ticks")


def arq_worker():
    from arq import cron
    from arq.connections import RedisSettings
    from arq.worker import Worker

    jobs = [cron(tick, second=set(range(60)), run_at_startup=True)]
    Worker([download, unsteady], cron_jobs=jobs, redis_settings=RedisSettings(WHERE.hostname, WHERE.port), burst=False,
           poll_delay=0.05).run()


async def arq_jobs():
    from arq import create_pool
    from arq.connections import RedisSettings

    pool = await create_pool(RedisSettings(WHERE.hostname, WHERE.port))
    jobs = [await pool.enqueue_job("download", number) for number in range(8)]
    await pool.enqueue_job("unsteady")
    assert await pool.enqueue_job("download", 1, _job_id="once") is not None
    assert await pool.enqueue_job("download", 1, _job_id="once") is None
    assert [await job.result(timeout=60, poll_delay=0.05) for job in jobs] == list(range(8))
    await pool.aclose()


def run_arq():
    workers = [start("arq_worker"), start("arq_worker")]
    asyncio.run(arq_jobs())
    wait_for("arq", 10)
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
        worker.wait()
    done("arq", int(redis.get("arq")), 10)


# huey

def make_huey():
    from huey import RedisHuey, crontab

    huey = RedisHuey("my-app", url=URL)

    @huey.task()
    def add(number):
        redis.incr("huey-sums")
        return number + 1

    @huey.task(retries=2, retry_delay=0)
    def flaky():
        if int(redis.incr("huey-tries")) == 1:
            raise ValueError("at first it fails")

    @huey.task()
    @huey.lock_task("report-lock")
    def report():
        redis.incr("huey-reports")

    @huey.periodic_task(crontab(minute="*"))
    def every_minute():
        redis.incr("huey-minutes")

    return huey, add, report, flaky


def huey_worker():
    huey, *_ = make_huey()
    consumer = huey.create_consumer(workers=2, periodic=True, initial_delay=0.05, max_delay=0.1)
    consumer.run()


def run_huey():
    huey, add, report, flaky = make_huey()
    workers = [start("huey_worker"), start("huey_worker")]
    results = [add(number) for number in range(8)]
    add.schedule((40,), delay=0.2)
    flaky()
    for _ in range(3):
        report()
    assert [result.get(blocking=True, timeout=60) for result in results] == list(range(1, 9))
    with huey.lock_task("own-lock"):
        redis.incr("huey-own")
    wait_for("huey-tries", 2)
    wait_for("huey-sums", 9)
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
        worker.wait()
    done("huey", int(redis.get("huey-sums")), 9)


# dramatiq

def make_dramatiq():
    import dramatiq
    from dramatiq.brokers.redis import RedisBroker
    from dramatiq.rate_limits import ConcurrentRateLimiter
    from dramatiq.rate_limits.backends import RedisBackend as LimiterBackend
    from dramatiq.results import Results
    from dramatiq.results.backends import RedisBackend

    broker = RedisBroker(url=URL)
    broker.add_middleware(Results(backend=RedisBackend(url=URL)))
    dramatiq.set_broker(broker)
    mutex = ConcurrentRateLimiter(LimiterBackend(url=URL), "distributed-mutex", limit=1)

    @dramatiq.actor(store_results=True, max_retries=3, min_backoff=50, max_backoff=100)
    def count(number):
        if number == 3 and int(redis.incr("dramatiq-three")) == 1:
            raise ValueError("at first it fails")
        with mutex.acquire(raise_on_failure=False) as acquired:
            if acquired:
                redis.incr("dramatiq-alone")
        redis.incr("dramatiq")
        return number

    return broker, count


def dramatiq_worker():
    import dramatiq

    logging.disable()
    broker, _ = make_dramatiq()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    worker = dramatiq.Worker(broker, worker_threads=2, worker_timeout=100)
    worker.start()
    stop.wait()
    worker.stop()
    broker.close()


def run_dramatiq():
    broker, count = make_dramatiq()
    messages = [count.send(number) for number in range(8)]
    count.send_with_options(args=(8,), delay=100)
    workers = [start("dramatiq_worker"), start("dramatiq_worker")]
    assert [message.get_result(block=True, timeout=60000) for message in messages] == list(range(8))
    wait_for("dramatiq", 9)
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
        worker.wait()
    done("dramatiq", int(redis.get("dramatiq")), 9)


# rq-scheduler and django-rq

def scheduler():
    from rq_scheduler import Scheduler

    logging.disable()
    scheduler = Scheduler(connection=redis, interval=1)
    stop = time.monotonic() + 3
    while time.monotonic() < stop:
        if scheduler.acquire_lock():
            scheduler.enqueue_jobs()
            scheduler.remove_lock()
        time.sleep(0.1)


def rq_worker():
    from rq import Queue, SimpleWorker

    logging.disable()
    SimpleWorker([Queue("default", connection=redis)], connection=redis).work(burst=True)


def run_rq_scheduler():
    from datetime import datetime, timezone

    import rq_tasks
    from rq_scheduler import Scheduler

    planned = Scheduler(connection=redis)
    now = datetime.now(timezone.utc).replace(tzinfo=None)
    jobs = [planned.enqueue_at(now, rq_tasks.add, number, 1) for number in range(4)]
    planned.enqueue_in(timedelta(seconds=1), rq_tasks.add, 4, 1)
    planned.schedule(scheduled_time=now, func=rq_tasks.add, args=[1, 1], interval=1, repeat=2)
    late = planned.enqueue_in(timedelta(hours=1), rq_tasks.add, 5, 1)
    planned.change_execution_time(late, now + timedelta(hours=2))
    planned.cancel(late)
    join([start("scheduler"), start("scheduler")])
    join([start("rq_worker"), start("rq_worker")])
    done("rq-scheduler", [job.get_status(refresh=True) for job in jobs], ["finished"] * 4)


def make_django():
    import django
    from django.conf import settings

    settings.configure(INSTALLED_APPS=["django_rq"], RQ_QUEUES={"default": {"URL": URL, "DEFAULT_TIMEOUT": 60}})
    django.setup()


def django_worker():
    make_django()
    import django_rq

    logging.disable()
    from rq import SimpleWorker

    django_rq.get_worker("default", worker_class=SimpleWorker).work(burst=True)


def run_django_rq():
    make_django()
    import django_rq
    import rq_tasks

    jobs = [django_rq.enqueue(rq_tasks.add, number, 1) for number in range(6)]
    join([start("django_worker"), start("django_worker")])
    done("django-rq", [job.get_status(refresh=True) for job in jobs], ["finished"] * 6)


# saq

async def saq_add(context, *, number):
    redis.incr("saq")
    return number + 1


def make_saq():
    from saq import Queue

    return Queue.from_url(URL)


def saq_worker():
    from saq import Worker

    async def serve():
        await Worker(make_saq(), functions=[("add", saq_add)], concurrency=2).start()

    asyncio.run(serve())


async def saq_jobs():
    queue = make_saq()
    await queue.connect()
    for number in range(12):
        await queue.enqueue("add", number=number, key=f"add-{number}")
    await queue.disconnect()


def run_saq():
    workers = [start("saq_worker"), start("saq_worker")]
    asyncio.run(saq_jobs())
    # A worker that begins sweeps away what another one has just begun.
    wait_for("saq", 8)
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
        worker.wait()
    done("saq", int(redis.get("saq")) >= 8)


def main():
    for role in ("run_arq", "run_huey", "run_dramatiq", "run_rq_scheduler", "run_django_rq", "run_saq"):
        globals()[role]()


ROLES = (main, arq_worker, huey_worker, dramatiq_worker, scheduler, rq_worker, django_worker, saq_worker)
play({role.__name__: role for role in ROLES})
