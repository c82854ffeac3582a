"""Groups, transactions, share groups and delays with real clients while brokers are killed."""

import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import (
    AcknowledgeType,
    Consumer,
    KafkaException,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from goqueue.testing import GoQueueCluster
from tests.busy_machine import stretched
from tests.interop.own_cluster import bring_back, options_of
from tests.interop.test_share_groups import configure

WAIT_SECONDS = 120.0
PARTITIONS = 3
MESSAGES = 300


@pytest.fixture(scope="module")
def cluster() -> Iterator[GoQueueCluster]:
    settings = {
        # Few: making and electing dozens takes longer than the tests.
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.num.partitions": "3",
        # Killed processes are noticed without it, and on a busy machine others must not seem so.
        "broker.session.timeout.ms": "30000",
    }
    with GoQueueCluster(*options_of(settings)) as running:
        yield running


@pytest.fixture(autouse=True)
def whole(cluster: GoQueueCluster) -> Iterator[None]:
    """Each test begins and ends with all brokers."""
    yield
    bring_back(cluster)


def make_topics(cluster: GoQueueCluster, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    made = admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in names])
    for each in made.values():
        each.result(WAIT_SECONDS)


def kill_leader(cluster: GoQueueCluster, topic: str, partition: int) -> None:
    """Of a partition whose replicas are all in sync, so that the next can lead."""
    until(lambda: len(cluster.in_sync(topic, partition)) == len(cluster.running))
    leader = cluster.leader(topic, partition)
    assert leader is not None
    cluster.kill(leader)


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + stretched(WAIT_SECONDS)
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def produce(cluster: GoQueueCluster, topic: str, count: int, **headers: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for number in range(count):
        producer.produce(
            topic,
            b"%d" % number,
            partition=number % PARTITIONS,
            headers=[(name.replace("_", "-"), value) for name, value in headers.items()],
        )
    assert producer.flush(stretched(WAIT_SECONDS)) == 0


def read_all(cluster: GoQueueCluster, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "reader",
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    found: list[bytes | None] = []
    deadline = time.monotonic() + stretched(WAIT_SECONDS)
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append(message.value())
    # Whatever came twice would come now.
    message = consumer.poll(1.0)
    while message is not None:
        found.append(message.value())
        message = consumer.poll(1.0)
    consumer.close()
    return found


@pytest.mark.slow
def test_a_copy_in_transactions_is_exact_while_coordinators_are_killed(
    cluster: GoQueueCluster,
) -> None:
    make_topics(cluster, "source", "target")
    produce(cluster, "source", MESSAGES)
    common = {"bootstrap.servers": cluster.bootstrap_servers}
    consumer = Consumer(
        {
            **common,
            "group.id": "copy",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["source"])
    producer = Producer({**common, "transactional.id": "copy", "acks": "all"})
    producer.init_transactions(WAIT_SECONDS)
    victims = [("__transaction_state", 0), ("__consumer_offsets", 0)]
    copied = 0
    deadline = time.monotonic() + stretched(WAIT_SECONDS)
    while copied < MESSAGES and time.monotonic() < deadline:
        messages = consumer.consume(30, 0.5)
        good = [message for message in messages if message.error() is None]
        if not good:
            continue
        producer.begin_transaction()
        for message in good:
            producer.produce("target", message.value(), partition=message.partition() or 0)
        if victims and copied >= MESSAGES / 3:
            kill_leader(cluster, *victims.pop())
        try:
            producer.send_offsets_to_transaction(
                consumer.position(consumer.assignment()),
                consumer.consumer_group_metadata(),
                WAIT_SECONDS,
            )
            producer.commit_transaction(WAIT_SECONDS)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(WAIT_SECONDS)
            rewind(consumer)
            continue
        copied += len(good)
        restore(cluster)
    consumer.close()
    assert not victims
    found = read_all(cluster, "target", MESSAGES)
    assert Counter(found) == Counter(b"%d" % number for number in range(MESSAGES))


def rewind(consumer: Consumer) -> None:
    """Back to what is committed, as after a failed transaction."""
    for place in consumer.committed(consumer.assignment(), WAIT_SECONDS):
        consumer.seek(
            TopicPartition(place.topic, place.partition, max(place.offset, 0)),
        )


def restore(cluster: GoQueueCluster) -> None:
    for node in cluster.node_ids:
        if node not in cluster.running:
            cluster.restart(node)


def test_a_share_group_goes_on_where_a_killed_leader_left_it(cluster: GoQueueCluster) -> None:
    make_topics(cluster, "jobs")
    configure(cluster.bootstrap_servers, "workers")
    produce(cluster, "jobs", MESSAGES)
    worker = ShareConsumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "workers",
            "share.acknowledgement.mode": "explicit",
        }
    )
    worker.subscribe(["jobs"])
    done: Counter[bytes | None] = Counter()

    def work(wanted: int) -> None:
        deadline = time.monotonic() + stretched(WAIT_SECONDS)
        while len(done) < wanted and time.monotonic() < deadline:
            for message in worker.poll(0.3):
                if message.error() is None:
                    done[message.value()] += 1
                    worker.acknowledge(message, AcknowledgeType.ACCEPT)
            worker.commit_sync(5)

    work(MESSAGES // 3)
    kill_leader(cluster, "jobs", 0)
    work(MESSAGES)
    worker.close()
    # What was not acknowledged when the leader was killed may come again; nothing is left out.
    assert set(done) == {b"%d" % number for number in range(MESSAGES)}


def test_delayed_messages_survive_the_leader_that_took_them(cluster: GoQueueCluster) -> None:
    make_topics(cluster, "reminders")
    produce(cluster, "reminders", 30, goqueue_delay_ms="3000")
    kill_leader(cluster, "reminders", 0)
    found = read_all(cluster, "reminders", 30)
    assert Counter(found) == Counter(b"%d" % number for number in range(30))
