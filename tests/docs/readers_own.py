"""What some pages leave to their readers: functions of their own, and other people who publish."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import Producer

from goqueue.testing import ServerProcess

_PAUSE_SECONDS: Final = 0.2


class Answer(dict[str, Any]):
    """Of `post`, as a client library would have it."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(json.loads(body or b"{}"))
        self.status = status

    @property
    def code(self) -> str:
        return str(self["error"]["code"])

    @property
    def messages(self) -> list[Any]:
        return list(self["messages"])


def handle(_message: object) -> None:
    """One is enough to see that the loop works."""
    raise KeyboardInterrupt


def names_for(broker: ServerProcess) -> dict[str, Any]:
    def post(path: str, body: object) -> Answer:
        request = urllib.request.Request(
            broker.http_url + path,
            data=json.dumps(body).encode(),
            headers={"content-type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return Answer(answer.status, answer.read())
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.read())

    return {"handle": handle, "post": post, "running": True}


@contextmanager
def messages_keep_coming(broker: ServerProcess, topic: str) -> Iterator[None]:
    """For readers that begin with what is new."""
    is_over = threading.Event()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    def publish() -> None:
        while not is_over.wait(_PAUSE_SECONDS):
            producer.produce(topic, b"tea")
            producer.poll(0)

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        producer.flush(10)
