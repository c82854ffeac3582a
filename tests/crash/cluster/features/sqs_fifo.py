"""A FIFO queue of SQS: message groups, deduplication, order, through the endpoint of any broker."""

import time
from collections.abc import Callable
from typing import Any, ClassVar, Final

from botocore.exceptions import ClientError

from tests.crash.cluster.features.calls import PATIENCE_S, RETRY_S, AnyBroker, NotAnswered, any_sqs
from tests.crash.cluster.features.fifo_history import FifoHistory, Number
from tests.crash.cluster.features.loads import Load, Surroundings
from tests.crash.cluster.features.sqs_receiving import SqsReceiving

QUEUE: Final = "ledger-lines.fifo"
GROUPS: Final = tuple(f"account-{n}" for n in range(6))
SENDERS: Final = 2
READERS: Final = 2
LEASE_S: Final = 3
DELETE_TRIES: Final = 6


class SqsFifo(Load):
    name: ClassVar[str] = "fifo"

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self.history = FifoHistory("fifo")
        self._is_settling = False

    def prepare(self) -> None:
        broker = self._brokers()
        attributes = {"FifoQueue": "true", "VisibilityTimeout": str(LEASE_S)}
        made = broker.insist(
            "create", lambda sqs: sqs.create_queue(QueueName=QUEUE, Attributes=attributes)
        )
        self._url: str = made["QueueUrl"]
        self._receiving = SqsReceiving(self._url, limit=5, attribute="SequenceNumber")
        self._senders = [
            self.worker(f"sender {n}", self._sender(GROUPS[n::SENDERS]), 0.1)
            for n in range(SENDERS)
        ]
        for n in range(READERS):
            self.worker(f"reader {n}", self._reader(), 0.05)

    def _brokers(self) -> AnyBroker[Any]:
        return any_sqs(self.around.http_urls, self.calls, self.chance())

    # --- work -----------------------------------------------------------------------------

    def _sender(self, groups: tuple[str, ...]) -> Callable[[], None]:
        broker, chance = self._brokers(), self.chance()
        following = dict.fromkeys(groups, 0)

        def step() -> None:
            group = chance.choice(groups)
            number = Number(group, following[group])
            # Until it is stored: only then is it known that the next one comes behind it.
            self._send_until_stored(broker, number)
            following[group] += 1
            if chance.random() < 0.1:
                again = Number(group, chance.randrange(max(0, number.n - 5), number.n + 1))
                self.history.repeated_count += 1
                self._send_once(broker, again)

        return step

    def _send_until_stored(self, broker: AnyBroker[Any], number: Number) -> None:
        deadline = time.monotonic() + PATIENCE_S
        tries = 0
        while True:
            try:
                return self._send_once(broker, number)
            except NotAnswered:
                if time.monotonic() > deadline:
                    raise
                tries += 1
                self.history.repeated_count += 1
                time.sleep(RETRY_S * min(tries, 10))

    def _send_once(self, broker: AnyBroker[Any], number: Number) -> None:
        answer = broker.ask(
            "send",
            lambda sqs: sqs.send_message(
                QueueUrl=self._url,
                MessageBody=f"{number.group} {number.n}",
                MessageGroupId=number.group,
                MessageDeduplicationId=f"{number.group}-{number.n}",
            ),
        )
        self.history.was_stored(number, answer["MessageId"], int(answer["SequenceNumber"]))

    def _reader(self) -> Callable[[], None]:
        broker, chance = self._brokers(), self.chance()

        def step() -> None:
            messages = self._receive(broker)
            for message in messages:
                dice = 1.0 if self._is_settling else chance.random()
                if dice < 0.03:
                    # The rest of the answer is left lying, and comes again in the same order.
                    return
                if not self._delete(broker, message):
                    return

        return step

    def _receive(self, broker: AnyBroker[Any]) -> list[dict[str, Any]]:
        messages, asked_at, came_at = self._receiving.receive(broker)
        for message in messages:
            sequence = int(message["Attributes"]["SequenceNumber"])
            self.history.was_stored(_number(message), message["MessageId"], sequence)
        self.history.was_answered([_number(each) for each in messages], asked_at, came_at)
        return messages

    def _delete(self, broker: AnyBroker[Any], message: dict[str, Any]) -> bool:
        """Whether it is done with, so that the next one may be, too."""
        sent = self.history.deletes(_number(message), time.monotonic())
        for attempt in range(DELETE_TRIES):
            try:
                broker.ask(
                    "delete",
                    lambda sqs: sqs.delete_message(
                        QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"]
                    ),
                )
            except NotAnswered:
                time.sleep(2 * RETRY_S)
            except ClientError as error:
                # The lease is over. After a try without an answer, that one may have counted.
                if error.response["Error"]["Code"] != "InvalidParameterValue":
                    raise
                if attempt == 0:
                    self.history.refused(sent)
                return False
            else:
                sent.answered_at = time.monotonic()
                return True
        return False

    # --- the end --------------------------------------------------------------------------

    def settle(self) -> None:
        self.end(*self._senders)
        self._is_settling = True
        self.until(lambda: not self.history.open_numbers() and self._receiving.is_quiet)
        self.end()

    def violations(self) -> list[str]:
        return self.history.violations()

    def figures(self) -> dict[str, object]:
        return self.history.figures()


def _number(message: dict[str, Any]) -> Number:
    group, _, n = message["Body"].partition(" ")
    return Number(group, int(n))
