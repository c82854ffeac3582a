"""A standard queue of SQS with a dead-letter queue, through boto3 and any broker."""

import json
import random
import time
from functools import partial
from itertools import count
from typing import Any, ClassVar, Final

from botocore.exceptions import ClientError

from tests.crash.cluster.features.calls import (
    RETRY_S,
    SQS_REGION,
    AnyBroker,
    NotAnswered,
    any_sqs,
)
from tests.crash.cluster.features.loads import Load, Surroundings
from tests.crash.cluster.features.queue_history import Acknowledgement, QueueHistory, the_next
from tests.crash.cluster.features.reading import Read, read_topic
from tests.crash.cluster.features.sqs_receiving import SqsReceiving

QUEUE: Final = "errands"
DEAD: Final = "errands-dead"
MAX_RECEIVE_COUNT: Final = 4
LEASE_S: Final = 3
DELETE_TRIES: Final = 6
SETTLE_S: Final = 90.0


class SqsStandard(Load):
    name: ClassVar[str] = "sqs"

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self.history = QueueHistory("sqs", returns=the_next)
        self.moved_count = 0
        self.dead: list[Read] = []
        self._numbers = count()
        self._is_settling = False

    def prepare(self) -> None:
        broker = self._brokers()
        attributes = {"VisibilityTimeout": str(LEASE_S)}
        broker.insist("create", lambda sqs: sqs.create_queue(QueueName=DEAD, Attributes=attributes))
        policy = json.dumps(
            {"deadLetterTargetArn": _arn(DEAD), "maxReceiveCount": MAX_RECEIVE_COUNT}
        )
        attributes = {**attributes, "RedrivePolicy": policy}
        made = broker.insist(
            "create", lambda sqs: sqs.create_queue(QueueName=QUEUE, Attributes=attributes)
        )
        # As one broker gave it; it is used at all of them.
        self._url: str = made["QueueUrl"]
        self._receiving = SqsReceiving(self._url, limit=10, attribute="ApproximateReceiveCount")
        chance = self.chance()
        self._sender = self.worker("sender", lambda: self._send(broker, chance), 0.1)
        for number in range(2):
            self.worker(f"reader {number}", self._reader(), 0.05)
        self._mover = self.worker("mover", lambda: self._move(broker), 5.0)

    def _brokers(self) -> AnyBroker[Any]:
        return any_sqs(self.around.http_urls, self.calls, self.chance())

    # --- work -----------------------------------------------------------------------------

    def _send(self, broker: AnyBroker[Any], chance: random.Random) -> None:
        """Each body is sent once: a request that fails is not repeated."""
        bodies = [
            f"{'poison' if chance.random() < 0.02 else 'errand'}-{next(self._numbers)}"
            for _ in range(chance.choice((1, 1, 3)))
        ]
        self.history.sent.update(bodies)
        if len(bodies) == 1:
            broker.ask(
                "send", lambda sqs: sqs.send_message(QueueUrl=self._url, MessageBody=bodies[0])
            )
            self.history.was_stored(bodies[0])
            return
        entries = [{"Id": str(n), "MessageBody": body} for n, body in enumerate(bodies)]
        answer = broker.ask(
            "send batch",
            lambda sqs: sqs.send_message_batch(QueueUrl=self._url, Entries=entries),
        )
        for entry in answer.get("Successful", ()):
            self.history.was_stored(bodies[int(entry["Id"])])
        self._note_failed("send batch", answer)

    def _note_failed(self, what: str, answer: dict[str, Any]) -> None:
        for entry in answer.get("Failed", ()):
            self.calls.failed(what, f"entry {entry['Code']}", time.monotonic(), str(entry))

    def _reader(self) -> Any:
        broker, chance = self._brokers(), self.chance()

        def step() -> None:
            messages = self._receive(broker)
            done = []
            for message in messages:
                if self._is_settling:
                    done.append(message)
                elif message["Body"].startswith("poison"):
                    self._change_visibility(broker, message, 0)
                else:
                    dice = chance.random()
                    if dice < 0.05:
                        self._change_visibility(broker, message, chance.choice((0, 2 * LEASE_S)))
                    elif dice < 0.97:
                        done.append(message)
            self._delete(broker, chance, done)

        return step

    def _receive(self, broker: AnyBroker[Any]) -> list[dict[str, Any]]:
        messages, asked_at, came_at = self._receiving.receive(broker)
        for message in messages:
            self.history.was_delivered(
                message["Body"], _count(message), asked_at, came_at, message["MessageId"]
            )
        return messages

    def _change_visibility(
        self, broker: AnyBroker[Any], message: dict[str, Any], seconds: int
    ) -> None:
        try:
            broker.ask(
                "change visibility",
                lambda sqs: sqs.change_message_visibility(
                    QueueUrl=self._url,
                    ReceiptHandle=message["ReceiptHandle"],
                    VisibilityTimeout=seconds,
                ),
            )
        except ClientError as error:
            # Its lease was over, and somebody else deleted it.
            if error.response["Error"]["Code"] != "InvalidParameterValue":
                raise

    def _delete(
        self, broker: AnyBroker[Any], chance: random.Random, messages: list[dict[str, Any]]
    ) -> None:
        """With the same receipts at any broker, until it is answered or the lease is over."""
        if not messages:
            return
        if len(messages) == 1 or chance.random() < 0.3:
            for message in messages:
                self._delete_one(broker, message)
            return
        sent = [self._acknowledges(each) for each in messages]
        entries = [
            {"Id": str(n), "ReceiptHandle": each["ReceiptHandle"]}
            for n, each in enumerate(messages)
        ]
        for _ in range(DELETE_TRIES):
            try:
                answer = broker.ask("delete batch", partial(self._delete_entries, entries))
            except NotAnswered:
                time.sleep(2 * RETRY_S)
                continue
            now = time.monotonic()
            for entry in answer.get("Successful", ()):
                sent[int(entry["Id"])].answered_at = now
            self._note_failed("delete batch", answer)
            failed = {entry["Id"] for entry in answer.get("Failed", ())}
            entries = [entry for entry in entries if entry["Id"] in failed]
            if not entries:
                return

    def _acknowledges(self, message: dict[str, Any]) -> Acknowledgement:
        return self.history.acknowledges(message["Body"], _count(message), time.monotonic())

    def _delete_entries(self, entries: list[dict[str, str]], sqs: Any) -> dict[str, Any]:
        answer: dict[str, Any] = sqs.delete_message_batch(QueueUrl=self._url, Entries=entries)
        return answer

    def _delete_one(self, broker: AnyBroker[Any], message: dict[str, Any]) -> None:
        sent = self._acknowledges(message)
        for _ in range(DELETE_TRIES):
            try:
                broker.ask(
                    "delete",
                    lambda sqs: sqs.delete_message(
                        QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"]
                    ),
                )
            except NotAnswered:
                time.sleep(2 * RETRY_S)
                continue
            sent.answered_at = time.monotonic()
            return

    def _move(self, broker: AnyBroker[Any]) -> None:
        """Dead letters go back to where they came from."""
        try:
            broker.ask(
                "start move task", lambda sqs: sqs.start_message_move_task(SourceArn=_arn(DEAD))
            )
            self.moved_count += 1
        except ClientError as error:
            if "already a task running" not in error.response["Error"]["Message"]:
                raise

    # --- the end --------------------------------------------------------------------------

    def settle(self) -> None:
        self.end(self._sender)
        self._is_settling = True
        # What is dead comes back by the mover, which goes on until nothing comes any more.
        self.until(lambda: not self.history.open_values() and self._receiving.is_quiet, SETTLE_S)
        self.end()
        self.dead = list(read_topic(self.around.bootstrap_servers, DEAD))

    def violations(self) -> list[str]:
        """What was moved may be there twice: a task sends before it deletes."""
        found = self.history.violations({(letter.value or b"").decode() for letter in self.dead})
        by_origin: dict[tuple[str, ...], list[Read]] = {}
        for letter in self.dead:
            origin = tuple(letter.headers[f"goqueue-dlq-{each}"] for each in _ORIGIN)
            by_origin.setdefault(origin, []).append(letter)
        return found + [
            f"sqs: {len(letters)} dead letters of {origin}: {letters}"
            for origin, letters in by_origin.items()
            if len(letters) > 1
        ]

    def figures(self) -> dict[str, object]:
        return {
            **self.history.figures(),
            "dead letters": len(self.dead),
            "move tasks": self.moved_count,
        }


_ORIGIN: Final = ("topic", "partition", "offset")


def _arn(queue: str) -> str:
    return f"arn:aws:sqs:{SQS_REGION}:000000000000:{queue}"


def _count(message: dict[str, Any]) -> int:
    return int(message["Attributes"]["ApproximateReceiveCount"])
