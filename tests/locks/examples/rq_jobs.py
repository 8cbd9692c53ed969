"""rq with its scheduler, rq-scheduler, and dependent jobs: two workers in processes of their own."""
from datetime import timedelta

from redis import Redis
from rq import Queue, Retry, SimpleWorker
from rq.job import Dependency

import rq_tasks
from processes import URL, done, join, play, start


def worker():
    SimpleWorker(["high", "default"], connection=Redis.from_url(URL)).work(with_scheduler=True, burst=True, logging_level="ERROR")


def main():
    redis = Redis.from_url(URL)
    queue = Queue(connection=redis)
    jobs = [queue.enqueue(rq_tasks.add, number, 1) for number in range(20)]
    jobs.append(Queue("high", connection=redis).enqueue(rq_tasks.add, 0, 0))
    jobs.append(queue.enqueue(rq_tasks.unsteady, retry=Retry(max=2)))
    jobs.append(queue.enqueue(rq_tasks.add, 1, 1, depends_on=Dependency(jobs=jobs[:2])))
    late = queue.enqueue_in(timedelta(hours=1), rq_tasks.add, 1, 1)
    join([start("worker"), start("worker")])
    done("all jobs are done", [job.get_status(refresh=True) for job in jobs], ["finished"] * len(jobs))
    late.cancel()
    late.delete()


play({"main": main, "worker": worker})
