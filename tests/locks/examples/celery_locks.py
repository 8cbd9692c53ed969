"""celery-once, celery-singleton and celery-redbeat: tasks that are queued once, and a schedule that one of two beats keeps."""
import logging
import signal
import time

from celery import Celery
from celery.schedules import schedule
from celery_once import AlreadyQueued, QueueOnce
from celery_singleton import Singleton
from redbeat import RedBeatSchedulerEntry
from redis import Redis

from processes import URL, done, play, start

app = Celery("tasks", broker=URL, backend=URL)
app.conf.ONCE = {"backend": "celery_once.backends.Redis", "settings": {"url": URL, "default_timeout": 60}}
app.conf.update(worker_hijack_root_logger=False, broker_connection_retry_on_startup=True, redbeat_redis_url=URL,
                redbeat_lock_timeout=20, beat_max_loop_interval=0.5)
redis = Redis.from_url(URL)


@app.task(base=QueueOnce)
def slow(number):
    redis.incr("slow")
    return number


@app.task(base=Singleton)
def single(number):
    time.sleep(0.05)
    redis.incr("single")
    return number


@app.task
def tick():
    redis.incr("ticks")


def worker():
    app.worker_main(["worker", "--pool=threads", "--concurrency=2", "--loglevel=ERROR", "--without-mingle", "--without-gossip"])


def beat():
    logging.disable()
    from redbeat import RedBeatScheduler

    app.Beat(scheduler_cls=RedBeatScheduler, max_interval=0.5, loglevel="ERROR", quiet=True, pidfile=None).run()


def main():
    RedBeatSchedulerEntry("tick", tick.name, schedule(run_every=0.5), app=app).save()
    refused = 0
    sent = []
    for number in (1, 1, 2):
        try:
            sent.append(slow.delay(number))
        except AlreadyQueued:
            refused += 1
    done("one was queued already", refused, 1)
    singles = [single.delay(number) for number in (1, 1, 2)]
    done("a task is queued once", singles[0].id, singles[1].id)
    processes = [start("worker"), start("worker"), start("beat"), start("beat")]
    done("they were done", [result.get(timeout=30) for result in sent], [1, 2])
    done("and these", [result.get(timeout=30) for result in singles], [1, 1, 2])
    done("queued again", [slow.delay(1).get(timeout=30), single.delay(1).get(timeout=30)], [1, 1])
    while int(redis.get("ticks") or 0) < 3:
        time.sleep(0.05)
    for process in reversed(processes):
        process.send_signal(signal.SIGTERM)
    for process in processes:
        process.wait()
    done("the schedule was kept", True)


play({"main": main, "worker": worker, "beat": beat})
