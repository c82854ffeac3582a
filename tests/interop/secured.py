"""A secured broker with its first users, for tests with real clients."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from goqueue.broker.node import Node
from goqueue.broker.security.users import records_of
from goqueue.model.broker_config import broker_config
from goqueue.service.security.access import Access
from tests.callers import ANYONE

T = TypeVar("T")

PATIENCE_S = 60
SECURED = ("--set", "security.enabled=true")


def with_users(data_dir: Path, *, admins: dict[str, str], others: dict[str, str]) -> None:
    """Users and passwords in the folder of a broker that does not run."""

    async def make() -> None:
        node = await Node.open(broker_config({"data.dir": str(data_dir)}))
        try:
            right = Access().alterable_cluster(ANYONE)
            for name, password in {**admins, **others}.items():
                scram = records_of(password)
                await node.security.users.create(right, name, scram=scram, is_admin=name in admins)
        finally:
            await node.close()

    asyncio.run(make())


def eventually(look: Callable[[], T]) -> T:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return found
