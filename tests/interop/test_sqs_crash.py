"""kill -9 at any moment: what was deleted stays deleted, what was sent comes."""

import threading
import time
from functools import partial
from operator import le
from pathlib import Path
from typing import Any

import httpx
import pytest
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

from tests.interop.servers import NewServer, Server, asked_broker
from tests.interop.sqs_api import attribute, connect, eventually, new_queue, receive

# A load that died of something else than a crash of the server says so.
pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")

ROUNDS = 4
# At the least, before the server is killed: how long that takes depends on the machine.
DELETED_PER_ROUND = 40
FIFO_SENDS_PER_ROUND = 30


class Load:
    """Sends, receives and deletes until the server dies, and remembers what was answered."""

    def __init__(self) -> None:
        self.sent: set[str] = set()
        self.deleted: set[str] = set()
        self.in_doubt: set[str] = set()
        self.came_back: set[str] = set()
        self._number = 0

    def run(self, sqs: Any, url: str, stop: threading.Event) -> None:
        try:
            while not stop.is_set():
                self._step(sqs, url)
        except (BotoCoreError, ClientError):
            return

    def _step(self, sqs: Any, url: str) -> None:
        names = [f"m{self._number + n}" for n in range(10)]
        self._number += 10
        entries = [{"Id": name, "MessageBody": name} for name in names]
        answer = sqs.send_message_batch(QueueUrl=url, Entries=entries)
        self.sent.update(each["Id"] for each in answer.get("Successful", ()))
        messages = receive(sqs, url)
        if not messages:
            return
        found = {message["Body"] for message in messages}
        self.came_back |= found & self.deleted
        self.in_doubt |= found
        sqs.delete_message_batch(
            QueueUrl=url,
            Entries=[
                {"Id": str(n), "ReceiptHandle": message["ReceiptHandle"]}
                for n, message in enumerate(messages)
            ],
        )
        self.deleted |= found
        self.in_doubt -= found


@pytest.fixture
def killable(new_server: NewServer, tmp_path: Path) -> Server:
    return new_server(tmp_path / "data")


def test_messages_over_crashes(killable: Server) -> None:
    load = Load()
    with killable as server:
        url = new_queue(connect(server.http_url), VisibilityTimeout="5", DelaySeconds="0")
        for _ in range(ROUNDS):
            stop = threading.Event()
            thread = threading.Thread(target=load.run, args=(connect(server.http_url), url, stop))
            thread.start()
            enough = len(load.deleted) + DELETED_PER_ROUND
            eventually(lambda: len(load.deleted), partial(le, enough))
            server.sigkill()
            thread.join()
            server.start()
        sqs = connect(server.http_url)
        assert attribute(sqs, url, "VisibilityTimeout") == "5"
        left: set[str] = set()
        deadline = time.monotonic() + 240
        # After a restart nothing is in flight, so everything that is left can be had at once.
        while time.monotonic() < deadline:
            messages = receive(sqs, url, VisibilityTimeout=60)
            if not messages:
                break
            left |= {message["Body"] for message in messages}
    assert load.came_back == set()
    assert left & load.deleted == set()
    # A delete without an answer may have been carried out.
    assert load.sent - load.deleted - load.in_doubt <= left


class FifoLoad:
    """Sends numbered messages, each again until it is answered, over as many crashes as come."""

    GROUPS = 3

    def __init__(self) -> None:
        self.numbers: list[str] = []
        self.retries = 0
        self._next = 0

    def run(self, sqs: Any, url: str, stop: threading.Event) -> None:
        try:
            while not stop.is_set():
                self.send(sqs, url)
        except (BotoCoreError, ClientError):
            # In doubt: sent again first of all after the restart.
            self.retries += 1

    def send(self, sqs: Any, url: str) -> None:
        answer = sqs.send_message(
            QueueUrl=url,
            MessageBody=str(self._next),
            MessageGroupId=f"g{self._next % self.GROUPS}",
            MessageDeduplicationId=f"id-{self._next}",
        )
        if answer.keys() <= {"ResponseMetadata", "message"}:
            # What botocore makes of an answer that was cut off.
            raise HTTPClientError(error=answer)
        self.numbers.append(answer["SequenceNumber"])
        self._next += 1


def test_fifo_sends_over_crashes(killable: Server) -> None:
    """A retry after kill -9 is known as a duplicate, or its message was never stored."""
    # Both send the same messages: whoever comes second is told what the first was.
    loads = [FifoLoad(), FifoLoad()]
    with killable as server:
        url = new_queue(connect(server.http_url), FifoQueue="true")
        for _ in range(ROUNDS):
            stop = threading.Event()
            threads = [
                threading.Thread(target=load.run, args=(connect(server.http_url), url, stop))
                for load in loads
            ]
            for thread in threads:
                thread.start()
            wanted = min(len(load.numbers) for load in loads) + FIFO_SENDS_PER_ROUND
            deadline = time.monotonic() + 60
            while min(len(load.numbers) for load in loads) < wanted:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            server.sigkill()
            for thread in threads:
                thread.join()
            server.start()
        sqs = connect(server.http_url)
        for load in loads:
            load.send(sqs, url)
        seen: dict[str, list[int]] = {}
        while messages := receive(sqs, url, AttributeNames=["All"]):
            for message in messages:
                group = message["Attributes"]["MessageGroupId"]
                seen.setdefault(group, []).append(int(message["Body"]))
            sqs.delete_message_batch(
                QueueUrl=url,
                Entries=[
                    {"Id": str(n), "ReceiptHandle": message["ReceiptHandle"]}
                    for n, message in enumerate(messages)
                ],
            )
    behind, ahead = sorted((load.numbers for load in loads), key=len)
    assert [load.retries for load in loads] == [ROUNDS, ROUNDS]
    assert behind == ahead[: len(behind)]
    assert ahead == sorted(set(ahead))
    sent = len(ahead)
    # Every message once, in the order of its group.
    groups = range(FifoLoad.GROUPS)
    assert seen == {f"g{group}": list(range(group, sent, FifoLoad.GROUPS)) for group in groups}


def requests_in_flight(server: Server) -> float:
    """This one included."""
    text = httpx.get(f"{server.http_url}/metrics").text
    [line] = [line for line in text.splitlines() if line.startswith("goqueue_http_requests_in_f")]
    return float(line.split()[1])


def test_a_stop_answers_those_who_wait(killable: Server) -> None:
    with killable as server:
        url = new_queue(connect(server.http_url))
        found: list[object] = []
        waiting = threading.Thread(
            target=lambda: found.append(receive(connect(server.http_url), url, WaitTimeSeconds=20))
        )
        waiting.start()
        eventually(lambda: requests_in_flight(server), lambda count: count == 2)
        started = time.monotonic()
        assert asked_broker(server).sigterm() == 0
        waiting.join()
        assert time.monotonic() - started < 18
        assert found == [[]]
