"""APScheduler: jobs in Redis, that run on time, are paused, changed and removed."""
import threading

from apscheduler.jobstores.redis import RedisJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from redis import Redis

from processes import URL, done, play

ran = threading.Semaphore(0)


def tick(number):
    ran.release()


def main():
    where = Redis.from_url(URL).connection_pool.connection_kwargs
    scheduler = BackgroundScheduler(jobstores={"default": RedisJobStore(host=where["host"], port=where["port"])})
    scheduler.start()
    for number in range(3):
        scheduler.add_job("__main__:tick", "interval", seconds=0.2, args=[number], id=f"tick-{number}")
    scheduler.add_job("__main__:tick", args=[9])
    for _ in range(7):
        ran.acquire(timeout=10)
    scheduler.pause_job("tick-0")
    scheduler.reschedule_job("tick-1", trigger="interval", seconds=60)
    scheduler.resume_job("tick-0")
    scheduler.add_job("__main__:tick", "interval", seconds=60, args=[2], id="tick-2", replace_existing=True)
    done("the jobs are known", sorted(job.id for job in scheduler.get_jobs()), ["tick-0", "tick-1", "tick-2"])
    scheduler.remove_all_jobs()
    scheduler.shutdown()
    done("none is left", True)


play({"main": main})
