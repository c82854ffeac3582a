"""Real clients against a real server process. One server serves all modules that want no other.

`pytest tests/interop --goqueue-cluster` puts a cluster in its place: clients talk to a broker that
leads nothing, and all results must be the same. `--goqueue-workers` puts two workers of one machine
in its place.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from goqueue.testing.cluster_as_server import ClusterAsServer
from goqueue.testing.server_process import ServerProcess
from tests.interop.one_node import reason_of
from tests.interop.servers import KEEPS_OLD_MESSAGES, NewServer, Server

_FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not (config.getoption("--goqueue-cluster") or config.getoption("--goqueue-workers")):
        return
    left_out = [
        item
        for item in items
        if _FOLDER in item.path.parents and reason_of(item.nodeid) is not None
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def new_server(pytestconfig: pytest.Config) -> NewServer:
    if pytestconfig.getoption("--goqueue-workers"):
        return partial(ServerProcess, workers=2)
    return ClusterAsServer if pytestconfig.getoption("--goqueue-cluster") else ServerProcess


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="session")
def server(new_server: NewServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Modules that want nothing of their own share one: a start takes more than a second."""
    with new_server(tmp_path_factory.mktemp("data"), *KEEPS_OLD_MESSAGES) as running:
        yield running


@pytest.fixture
def bootstrap(server: Server) -> str:
    return server.bootstrap_servers


@pytest.fixture
def node_ids(server: Server) -> list[int]:
    """All brokers that there are; clients talk to the last."""
    if isinstance(server, ServerProcess):
        return list(range(server.workers))
    return list(server.cluster.node_ids)


@pytest.fixture
def topic() -> str:
    """A name nobody else uses; the topic is made when first asked for."""
    return f"topic-{uuid4().hex[:8]}"
