"""Fixtures that pytest finds by itself wherever GoQueue is installed.

`goqueue_broker`: one `EmbeddedBroker` for the whole test run; with `--goqueue-cluster` a
`ClusterAsServer`, to see that tests pass at any broker of a cluster.
`goqueue_secured_broker`: one with TLS and log-ins; `client_config` and the like say how.
`goqueue_topic`: the name of a new topic with one partition, gone after the test.
`goqueue_cluster`: three brokers and an etcd as processes, new for each test: tests break them.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from goqueue.testing.cluster_as_server import ClusterAsServer
    from goqueue.testing.embedded_broker import EmbeddedBroker
    from goqueue.testing.server_cluster import GoQueueCluster


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("goqueue").addoption(
        "--goqueue-cluster",
        action="store_true",
        help="goqueue_broker is a broker that leads nothing, with three others and an etcd.",
    )


@pytest.fixture(scope="session")
def goqueue_broker(
    pytestconfig: pytest.Config,
) -> "Iterator[EmbeddedBroker | ClusterAsServer]":
    """A broker that lives as long as the test run."""
    if pytestconfig.getoption("--goqueue-cluster"):
        from goqueue.testing.cluster_as_server import ClusterAsServer

        with ClusterAsServer() as cluster:
            yield cluster
        return
    from goqueue.testing.embedded_broker import EmbeddedBroker

    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture(scope="session")
def goqueue_secured_broker() -> "Iterator[EmbeddedBroker]":
    """A broker with TLS and an administrator that lives as long as the test run."""
    from goqueue.testing.embedded_broker import EmbeddedBroker

    with EmbeddedBroker(security=True) as broker:
        yield broker


@pytest.fixture
def goqueue_topic(goqueue_broker: "EmbeddedBroker | ClusterAsServer") -> Iterator[str]:
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
