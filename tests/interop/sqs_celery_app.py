"""A Celery application over SQS, as users write one; run as a worker by the test."""

import os
from pathlib import Path

from celery import Celery, Task

URL = os.environ["SQS_URL"]
NOTES = Path(os.environ["NOTES"])

# The id and the secret of a key; any will do while security is off.
KEY = os.environ.get("SQS_KEY", "any:any")

app = Celery("orders", broker=f"sqs://{KEY}@" + URL.removeprefix("http://"))
app.conf.update(
    broker_transport_options={
        "region": "eu-central-1",
        "visibility_timeout": 30,
        "polling_interval": 0.1,
        "wait_time_seconds": 1,
        "is_secure": False,
    },
    task_default_queue=os.environ["QUEUE"],
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
)


def note(text: str) -> None:
    with NOTES.open("a") as file:
        file.write(text + "\n")


@app.task  # type: ignore[untyped-decorator]
def add(a: int, b: int) -> None:
    note(f"add {a + b}")


@app.task(bind=True, max_retries=3)  # type: ignore[untyped-decorator]
def flaky(self: "Task", name: str) -> None:
    attempt = self.request.retries + 1
    note(f"flaky {name} {attempt}")
    if attempt < 3:
        raise self.retry(countdown=0)
