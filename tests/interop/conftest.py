"""Real clients against a real server process. One server serves a whole module."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from goqueue.testing import ServerProcess


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def server(data_dir: Path) -> Iterator[ServerProcess]:
    with ServerProcess(data_dir) as running:
        yield running


@pytest.fixture
def bootstrap(server: ServerProcess) -> str:
    return server.bootstrap_servers


@pytest.fixture
def topic() -> str:
    """A name nobody else uses; the topic is made when first asked for."""
    return f"topic-{uuid4().hex[:8]}"
