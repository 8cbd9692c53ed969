"""taskiq with taskiq-redis: a broker whose tasks a worker runs, with results and a schedule."""
import asyncio
import subprocess
import sys

from taskiq import TaskiqScheduler
from taskiq.schedule_sources import LabelScheduleSource
from taskiq_redis import ListRedisScheduleSource, RedisAsyncResultBackend, RedisStreamBroker

from processes import URL, done

broker = RedisStreamBroker(url=URL).with_result_backend(RedisAsyncResultBackend(redis_url=URL, result_ex_time=60))
source = ListRedisScheduleSource(URL)
scheduler = TaskiqScheduler(broker, [LabelScheduleSource(broker), source])


@broker.task
async def add(x: int, y: int) -> int:
    return x + y


async def main():
    words = [sys.executable, "-m", "taskiq", "worker", "taskiq_tasks:broker", "--workers", "2", "--log-level", "ERROR"]
    worker = subprocess.Popen(words)
    await broker.startup()
    tasks = [await add.kiq(number, 1) for number in range(20)]
    sums = [(await task.wait_result(timeout=40)).return_value for task in tasks]
    done("all sums are right", sums, list(range(1, 21)))
    await source.startup()
    plan = await add.schedule_by_cron(source, "*/5 * * * *", 1, 2)
    done("the schedule is there", len(await source.get_schedules()) <= 1)
    await plan.unschedule()
    worker.terminate()
    await source.shutdown()
    await broker.shutdown()


if __name__ == "__main__":
    asyncio.run(main())
