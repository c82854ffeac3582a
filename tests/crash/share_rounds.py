"""Rounds of work with a share group during which the broker is killed.

The client keeps a record: what it produced with an answer, and what it acknowledged with an answer.
Whatever happens to the broker, an acknowledged message never comes back, and one that is not
acknowledged does. `python -m tests.crash.share_rounds 100` runs as many rounds as it is told.
"""

import random
import sys
import tempfile
import threading
import time
from pathlib import Path

from confluent_kafka import AcknowledgeType, KafkaException, Message, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from goqueue.testing import ClusterAsServer, ServerProcess

TOPIC = "work"
GROUP = "workers"
PARTITIONS = 2
PER_ROUND = 200
# Some of what is taken is given back, so that a crash finds messages in all states.
RELEASED_SHARE = 0.2
WAIT_SECONDS = 60.0
CLIENT = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "socket.timeout.ms": 2_000,
    "log_level": 0,
}


class ShareRounds:
    def __init__(self, server: ServerProcess | ClusterAsServer, seed: int) -> None:
        self._server = server
        self._random = random.Random(seed)
        self._produced: set[int] = set()
        self._acknowledged: set[int] = set()
        # Acknowledged to a broker that was killed before it answered: stored there, or not.
        self._in_doubt: set[int] = set()
        self._next = 0
        self.redelivered = 0
        admin = AdminClient({"bootstrap.servers": server.bootstrap_servers, **CLIENT})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(WAIT_SECONDS)
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in (
                ("share.auto.offset.reset", "earliest"),
                ("share.delivery.count.limit", "1000"),
                # A consumer that could not say good-bye keeps its partition for this long.
                ("share.session.timeout.ms", "2000"),
                ("share.heartbeat.interval.ms", "300"),
            )
        ]
        resource = ConfigResource(ResourceType.GROUP, GROUP, incremental_configs=entries)
        for done in admin.incremental_alter_configs([resource]).values():
            done.result(WAIT_SECONDS)

    @property
    def acknowledged(self) -> int:
        return len(self._acknowledged)

    def run_one(self) -> None:
        self._produce()
        stop = threading.Event()
        worker = _Worker(self, stop)
        worker.start()
        enough = self.acknowledged + self._random.randrange(1, PER_ROUND)
        _wait(lambda: self.acknowledged >= enough or not worker.is_alive())
        self._server.sigkill()
        stop.set()
        self._server.start()
        worker.join(WAIT_SECONDS)
        assert not worker.is_alive(), "the consumer did not end"
        if worker.failure is not None:
            raise worker.failure

    def finish(self) -> None:
        """What was not acknowledged comes, all of it."""
        stop = threading.Event()
        worker = _Worker(self, stop)
        worker.start()
        _wait(lambda: self._are_all_done or not worker.is_alive())
        stop.set()
        worker.join(WAIT_SECONDS)
        if worker.failure is not None:
            raise worker.failure
        assert self._are_all_done

    @property
    def _are_all_done(self) -> bool:
        return self._produced <= self._acknowledged | self._in_doubt

    def consumer(self) -> ShareConsumer:
        config = {
            "bootstrap.servers": self._server.bootstrap_servers,
            "group.id": GROUP,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": 50,
            **CLIENT,
        }
        return ShareConsumer(config)

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._server.bootstrap_servers, **CLIENT})

        def answered(error: object, message: Message) -> None:
            if error is None:
                self._produced.add(int(message.value() or b""))

        for number in range(self._next, self._next + PER_ROUND):
            producer.produce(TOPIC, b"%d" % number, on_delivery=answered)
        assert producer.flush(WAIT_SECONDS) == 0
        self._next += PER_ROUND

    def handle(self, consumer: ShareConsumer, messages: list[Message]) -> None:
        taken: dict[int, list[int]] = {}
        for message in messages:
            assert message.error() is None, message.error()
            number = int(message.value() or b"")
            assert number not in self._acknowledged, f"{number} came back"
            self.redelivered += (message.delivery_count() or 0) > 1
            accepts = self._random.random() >= RELEASED_SHARE
            how = AcknowledgeType.ACCEPT if accepts else AcknowledgeType.RELEASE
            consumer.acknowledge(message, how)
            if accepts:
                taken.setdefault(message.partition() or 0, []).append(number)
        for numbers in taken.values():
            self._in_doubt.update(numbers)
        for place, error in consumer.commit_sync(WAIT_SECONDS).items():
            numbers = taken.get(place.partition, [])
            self._in_doubt.difference_update(numbers)
            if error is None:
                self._acknowledged.update(numbers)


class _Worker(threading.Thread):
    def __init__(self, rounds: ShareRounds, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._rounds = rounds
        self._stop_asked = stop
        self.failure: BaseException | None = None

    def run(self) -> None:
        consumer = self._rounds.consumer()
        consumer.subscribe([TOPIC])
        try:
            while not self._stop_asked.is_set():
                messages = list(consumer.poll(0.1))
                if messages:
                    self._rounds.handle(consumer, messages)
        except KafkaException:
            # The broker was killed under it; what it did not hear is not in the record.
            pass
        except BaseException as error:
            self.failure = error
        finally:
            consumer.close()


def _wait(is_so: object) -> None:
    assert callable(is_so)
    end = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < end, "nothing goes on any more"
        time.sleep(0.002)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with (
        tempfile.TemporaryDirectory() as folder,
        ServerProcess(Path(folder) / "data") as server,
    ):
        rounds = ShareRounds(server, seed=count)
        for number in range(1, count + 1):
            rounds.run_one()
            if number % 10 == 0:
                print(f"{number} kills, {rounds.acknowledged} acknowledged", flush=True)
        rounds.finish()
        print(
            f"{count} kills: {rounds.acknowledged} messages acknowledged, none came back, none was"
            f" lost; {rounds.redelivered} deliveries were repeated"
        )


if __name__ == "__main__":
    main()
