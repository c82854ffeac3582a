"""Members of a group with librdkafka, in a process of their own.

`python -m tests.crash.splits.members BOOTSTRAP TOPIC GROUP KIND COUNT` says what they see, a line
for each message, and ends with its input. Beside producers and other groups in one interpreter they
would wait for each other, and what they took would be Python's time, not the broker's.
"""

import sys
import threading
import time
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from tests.crash.splits.clients import CLIENT, POLL_S, Worker, seen_in

# As members ask for them.
KINDS: Final[dict[str, dict[str, Any]]] = {
    "consumer": {"group.protocol": "consumer"},
    "range": {"partition.assignment.strategy": "range", "heartbeat.interval.ms": 500},
    "cooperative-sticky": {
        "partition.assignment.strategy": "cooperative-sticky",
        "heartbeat.interval.ms": 500,
    },
    "roundrobin": {"partition.assignment.strategy": "roundrobin", "heartbeat.interval.ms": 500},
}

_saying: Final = threading.Lock()


def _say(*words: object) -> None:
    with _saying:
        sys.stdout.write(" ".join(map(str, words)) + "\n")
        sys.stdout.flush()


class Member(Worker):
    """New partitions begin at their end, if nobody says else."""

    def __init__(self, bootstrap: str, topic: str, group: str, kind: str, number: int) -> None:
        super().__init__(f"{group}-{number}")
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "client.id": self.name,
                "auto.offset.reset": "latest",
                "enable.auto.offset.store": False,
                "auto.commit.interval.ms": 500,
                # Half a second otherwise, for which a fetch of partitions with nothing new keeps
                # the others' messages waiting in the client.
                "fetch.wait.max.ms": 50,
                **KINDS[kind],
                **CLIENT,
            }
        )

    def work(self) -> None:
        consumer = self._consumer
        consumer.subscribe([self._topic], on_assign=self._assigned)
        try:
            while not self.stopping.is_set():
                message = consumer.poll(POLL_S)
                if message is None or message.error() is not None:
                    continue
                seen = seen_in(message, time.time(), self.name)
                delay_ms, at_ms = seen.delay_s * 1_000, seen.at_s * 1_000
                value = seen.sent.encoded().decode()
                # Before it may be committed.
                _say("seen", seen.partition, value, f"{delay_ms:.1f}", f"{at_ms:.1f}", self.name)
                self._store(message)
        finally:
            consumer.close()

    def _assigned(self, _: Consumer, places: list[Any]) -> None:
        for each in places:
            _say("assigned", each.partition)

    def _store(self, message: Message) -> None:
        """Of what may be committed from now on; not of a partition that was just taken away."""
        try:
            self._consumer.store_offsets(message)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._STATE:
                raise


def main(bootstrap: str, topic: str, group: str, kind: str, count: str) -> None:
    members = [Member(bootstrap, topic, group, kind, number) for number in range(int(count))]
    for member in members:
        member.start()
    sys.stdin.read()
    for member in members:
        member.stopping.set()
    for member in members:
        member.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
