from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from goqueue.broker.node import Node
from goqueue.model.broker_config import broker_config

OpenBroker = Callable[..., AbstractAsyncContextManager[Node]]


@pytest.fixture
def open_broker(tmp_path: Path) -> OpenBroker:
    """Opens a broker on the test's own folder; opening it again is a restart."""

    @asynccontextmanager
    async def opener(**settings: str) -> AsyncIterator[Node]:
        texts = {name.replace("__", "."): text for name, text in settings.items()}
        broker = await Node.open(broker_config({"data.dir": str(tmp_path / "data"), **texts}))
        await broker.announce("127.0.0.1", 9092, 8080)
        try:
            yield broker
        finally:
            await broker.close()

    return opener
