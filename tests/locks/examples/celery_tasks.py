"""celery: a worker in a process of its own with two threads; results, retries, a group, a chord, and a queue of kombu."""
from celery import Celery, chord, group
from kombu import Connection

from processes import URL, done, join, play, start

app = Celery("tasks", broker=URL, backend=URL)
app.conf.update(worker_hijack_root_logger=False, broker_connection_retry_on_startup=True, result_expires=60)


@app.task
def add(x, y):
    return x + y


@app.task(bind=True, max_retries=2)
def unsteady(self):
    if self.request.retries == 0:
        raise self.retry(countdown=0.1)
    return "at last"


@app.task
def total(numbers):
    return sum(numbers)


def worker():
    app.worker_main(["worker", "--pool=threads", "--concurrency=2", "--loglevel=ERROR", "--without-mingle"])


def main():
    workers = [start("worker"), start("worker")]
    sums = [add.delay(number, 1) for number in range(20)]
    done("all sums are right", [result.get(timeout=40) for result in sums], list(range(1, 21)))
    done("a task was tried again", unsteady.delay().get(timeout=20), "at last")
    done("a group", group(add.s(x, x) for x in range(5))().get(timeout=20), [0, 2, 4, 6, 8])
    done("a chord", chord(add.s(x, x) for x in range(5))(total.s()).get(timeout=20), 20)
    app.control.shutdown()
    join(workers)
    with Connection(URL) as connection, connection.SimpleQueue("simple_queue") as queue:
        for number in range(5):
            queue.put({"number": number})
        numbers = []
        for _ in range(5):
            message = queue.get(block=True, timeout=5)
            numbers.append(message.payload["number"])
            message.ack()
    done("the messages came in their order", numbers, list(range(5)))


play({"main": main, "worker": worker})
