"""Fixtures that pytest finds by itself wherever GoQueue is installed.

`goqueue_broker`: one `EmbeddedBroker` for the whole test run.
`goqueue_topic`: the name of a new topic with one partition, gone after the test.
`goqueue_cluster`: three brokers and an etcd as processes, new for each test: tests break them.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from goqueue.testing.embedded_broker import EmbeddedBroker
    from goqueue.testing.server_cluster import GoQueueCluster


@pytest.fixture(scope="session")
def goqueue_broker() -> "Iterator[EmbeddedBroker]":
    """A broker that lives as long as the test run."""
    from goqueue.testing.embedded_broker import EmbeddedBroker

    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def goqueue_topic(goqueue_broker: "EmbeddedBroker") -> Iterator[str]:
    """A topic of the test's own."""
    name = goqueue_broker.create_topic()
    yield name
    goqueue_broker.delete_topic(name)


@pytest.fixture
def goqueue_cluster() -> "Iterator[GoQueueCluster]":
    """A cluster of the test's own, to be killed, paused and cut."""
    from goqueue.testing.server_cluster import GoQueueCluster

    with GoQueueCluster(brokers=3) as cluster:
        yield cluster
