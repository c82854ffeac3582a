"""Confluent's registry client at brokers of a cluster that do not lead the registry's log."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from goqueue.testing import GoQueueCluster
from tests.busy_machine import stretched
from tests.interop.own_cluster import bring_back

TOPIC = "_schemas"
WAIT_SECONDS = 120.0
CLIENTS = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[GoQueueCluster]:
    # The log has three replicas: one broker has none.
    # On a busy machine, brokers must not seem dead that are not.
    with GoQueueCluster("--set", "broker.session.timeout.ms=30000", brokers=4) as running:
        with SchemaRegistryClient({"url": running.http_urls[0]}) as client:
            client.register_schema("first", schema(0))
        yield running


@pytest.fixture(autouse=True)
def whole(cluster: GoQueueCluster) -> Iterator[None]:
    """Each test begins and ends with all brokers."""
    yield
    bring_back(cluster)


def schema(number: int) -> Schema:
    fields = [{"name": "f", "type": "string"}]
    return Schema(json.dumps({"type": "record", "name": f"R{number}", "fields": fields}), "AVRO")


def without_replica(cluster: GoQueueCluster) -> int:
    until(lambda: len(cluster.in_sync(TOPIC)) == 3)
    [node] = set(cluster.node_ids) - cluster.in_sync(TOPIC)
    return node


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + stretched(WAIT_SECONDS)
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_registered_at_a_broker_without_a_replica_and_read_at_all_at_once(
    cluster: GoQueueCluster,
) -> None:
    outsider = cluster.server(without_replica(cluster)).http_url
    with ExitStack() as stack:
        registry = stack.enter_context(SchemaRegistryClient({"url": outsider}))
        for number in range(1, 11):
            schema_id = registry.register_schema(f"subject-{number}", schema(number))
            for url in cluster.http_urls:
                # A new client each time: it has nothing in its caches.
                with SchemaRegistryClient({"url": url}) as other:
                    found = other.get_schema(schema_id).schema_str
                    assert json.loads(str(found)) == json.loads(str(schema(number).schema_str))
                    assert f"subject-{number}" in other.get_subjects()


def test_serialised_at_one_broker_and_checked_at_another(cluster: GoQueueCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    config = {"schema.validation.value": "content"}
    [made] = admin.create_topics([NewTopic("checked", 4, 3, config=config)]).values()
    made.result(WAIT_SECONDS)
    outsider = cluster.server(without_replica(cluster)).http_url
    failed: list[object] = []
    with SchemaRegistryClient({"url": outsider}) as registry:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for number in range(20, 28):
            # Each registers its schema under the topic's subject and uses it in the same moment.
            registry.set_compatibility("checked-value", "NONE")
            serialize = AvroSerializer(registry, str(schema(number).schema_str))
            value = serialize({"f": "x"}, SerializationContext("checked", MessageField.VALUE))
            producer.produce(
                "checked",
                value,
                partition=number % 4,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
            assert producer.flush(WAIT_SECONDS) == 0
    assert not failed


def test_ids_go_on_when_the_leader_is_killed(cluster: GoQueueCluster) -> None:
    told: dict[int, int] = {}
    numbers = count(1_000)
    stop = threading.Event()

    def register(urls: list[str]) -> None:
        with SchemaRegistryClient({"url": ",".join(urls)}) as client:
            while not stop.is_set():
                number = next(numbers)
                told[client.register_schema(f"many-{number}", schema(number))] = number

    urls = cluster.http_urls
    rotations = [urls[turn:] + urls[:turn] for turn in range(CLIENTS)]
    threads = [threading.Thread(target=register, args=[each]) for each in rotations]
    for thread in threads:
        thread.start()
    try:
        for _ in range(2):
            before = len(told)
            until(lambda before=before: len(told) > before + 20)  # type: ignore[misc]
            until(lambda: len(cluster.in_sync(TOPIC)) == 3)
            leader = cluster.leader(TOPIC)
            assert leader is not None
            cluster.kill(leader)
            before = len(told)
            until(lambda before=before: len(told) > before + 20)  # type: ignore[misc]
            cluster.restart(leader)
            cluster.wait_complete()
    finally:
        stop.set()
        for thread in threads:
            thread.join(WAIT_SECONDS)
    # Every answer had an id of its own, or one of them would be missing here.
    assert sorted(told.values()) == list(range(1_000, 1_000 + len(told)))
    for url in cluster.http_urls:
        with SchemaRegistryClient({"url": url}) as client:
            for schema_id, number in told.items():
                found = client.get_schema(schema_id).schema_str
                assert json.loads(str(found))["name"] == f"R{number}"
