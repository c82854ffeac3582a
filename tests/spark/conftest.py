"""One Spark session and one broker process for all tests of this folder."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import goqueue.spark
from goqueue.testing import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The first query of a session starts Java and many Python workers: minutes on a busy machine. And
# a test that is interrupted within a call to Java breaks the session for all that follow.
TIMEOUT_SECONDS = 900


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.timeout(TIMEOUT_SECONDS))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("spark-broker")
    # Soon, for tests of compacted topics and of those that are split.
    soon = ("--set", "log.cleaner.backoff.ms=200", "--set", "scale.drain.ms=500")
    with ServerProcess(folder, *soon) as running:
        yield running


@pytest.fixture(scope="session")
def bootstrap(broker: ServerProcess) -> str:
    return broker.bootstrap_servers


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    session = goqueue.spark.session(
        "goqueue-tests", "local[2]", spark_sql_shuffle_partitions=2, spark_log_level="ERROR"
    )
    yield session
    session.stop()


@pytest.fixture
def make_topic(bootstrap: str) -> Callable[..., str]:
    """Makes a topic that no other test uses: `make_topic(partitions=2, **settings)`."""

    def make(partitions: int = 1, name: str | None = None, **settings: str) -> str:
        name = name or f"spark-{uuid4().hex[:8]}"
        admin = AdminClient({"bootstrap.servers": bootstrap})
        config = {key.replace("_", "."): value for key, value in settings.items()}
        created = admin.create_topics([NewTopic(name, partitions, config=config)])
        created[name].result()
        return name

    return make


@pytest.fixture
def send(bootstrap: str) -> Callable[..., None]:
    """Sends records (values, or mappings of confluent_kafka's arguments) and waits for them."""

    def publish(
        topic: str, records: Sequence[bytes | Mapping[str, object]], **settings: object
    ) -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **settings})
        failures: list[object] = []

        def delivered(error: object, _message: object) -> None:
            if error is not None:
                failures.append(error)

        for record in records:
            fields = {"value": record} if isinstance(record, bytes) else dict(record)
            producer.produce(topic, **fields, on_delivery=delivered)
        assert producer.flush(20) == 0
        assert not failures

    return publish
