"""The test kit as its users use it."""

import asyncio
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from goqueue.model.errors import DataDirectoryError, InvalidConfig
from goqueue.server.addresses import StartFailed
from goqueue.testing import EmbeddedBroker, ServerProcess
from tests.busy_machine import stretched

pytest_plugins = ["pytester"]


def send(broker: EmbeddedBroker | ServerProcess, topic: str, *values: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in values:
        producer.produce(topic, value.encode(), partition=0)
    assert producer.flush(10) == 0


def received(broker: EmbeddedBroker | ServerProcess, topic: str, count: int) -> list[str]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "none",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        found = consumer.consume(count, timeout=60)
        return [(message.value() or b"").decode() for message in found]
    finally:
        consumer.close()


def test_a_broker_in_the_tests_own_process() -> None:
    with EmbeddedBroker() as broker:
        topic = broker.create_topic(partitions=2)
        send(broker, topic, "hello", "world")
        assert received(broker, topic, 2) == ["hello", "world"]
        with urllib.request.urlopen(f"{broker.http_url}/readyz", timeout=60) as answer:
            assert answer.status == 200
        data_dir = broker.data_dir
        assert data_dir.exists()
    assert not data_dir.exists()


def test_start_takes_less_than_a_second() -> None:
    with EmbeddedBroker():
        pass  # imports are paid once per test run
    started = time.monotonic()
    with EmbeddedBroker():
        assert time.monotonic() - started < stretched(1)


def test_settings_are_keywords() -> None:
    with EmbeddedBroker(num_partitions=5, topic_retention_ms=1234) as broker:
        send(broker, "made-on-demand", "x")
        with urllib.request.urlopen(f"{broker.http_url}/topics/made-on-demand") as answer:
            text = answer.read().decode()
        assert '"partitionCount":5' in text
        assert '"1234"' in text
    with pytest.raises(InvalidConfig, match="did you mean num_partitions"):
        EmbeddedBroker(num_partition=5).start()


def test_restart_keeps_data_and_addresses(tmp_path: Path) -> None:
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        topic = broker.create_topic()
        send(broker, topic, "before")
        addresses = (broker.bootstrap_servers, broker.http_url)
        broker.restart()
        assert (broker.bootstrap_servers, broker.http_url) == addresses
        send(broker, topic, "after")
        assert received(broker, topic, 2) == ["before", "after"]
    assert tmp_path.exists()


def test_several_brokers_at_once() -> None:
    with EmbeddedBroker() as one, EmbeddedBroker() as two:
        assert one.bootstrap_servers != two.bootstrap_servers
        send(one, "t", "one")
        send(two, "t", "two")
        assert received(one, "t", 1) == ["one"]
        assert received(two, "t", 1) == ["two"]


def test_start_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        with pytest.raises(DataDirectoryError, match="in use"):
            EmbeddedBroker(data_dir=tmp_path).start()
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        second = EmbeddedBroker(kafka_port=port)
        with pytest.raises(StartFailed, match=f"port {port}"):
            second.start()
    with EmbeddedBroker(data_dir=tmp_path):
        pass


def test_async_with() -> None:
    async def use() -> None:
        async with EmbeddedBroker() as broker:
            await asyncio.to_thread(send, broker, "t", "hello")
            assert await asyncio.to_thread(received, broker, "t", 1) == ["hello"]

    asyncio.run(use())


@pytest.mark.parametrize("behind", [(), ("--goqueue-cluster",)], ids=["embedded", "cluster"])
def test_fixtures(pytester: pytest.Pytester, behind: tuple[str, ...]) -> None:
    pytester.makepyfile(
        """
        from confluent_kafka import Producer

        topics = set()
        brokers = set()

        def one(broker, topic):
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
            producer.produce(topic, b"x")
            assert producer.flush(10) == 0
            topics.add(topic)
            brokers.add(broker.bootstrap_servers)

        def test_first(goqueue_broker, goqueue_topic):
            one(goqueue_broker, goqueue_topic)

        def test_second(goqueue_broker, goqueue_topic):
            one(goqueue_broker, goqueue_topic)
            assert (len(topics), len(brokers)) == (2, 1)
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", *behind)
    result.assert_outcomes(passed=2)


def test_plugin_costs_nothing_where_it_is_not_used() -> None:
    code = (
        "import sys\n"
        "import goqueue.testing.pytest_plugin\n"
        "print(sorted({'asyncio', 'kio', 'aiokafka', 'litestar', 'uvloop'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.strip() == "[]"


def test_process_survives_being_killed(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        send(server, "t", "before")
        address = server.bootstrap_servers
        server.sigkill()
        assert not server.is_running
        server.restart()
        assert server.bootstrap_servers == address
        send(server, "t", "after")
        assert received(server, "t", 2) == ["before", "after"]
