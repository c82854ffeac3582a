"""A broker process at which clients must log in, with its first users."""

import asyncio
from pathlib import Path

from goqueue.broker.node import Node
from goqueue.model.broker_config import broker_config
from goqueue.service.broker_service import BrokerService
from goqueue.testing.server_process import ServerProcess
from tests.callers import ANYONE

ADMIN, PASSWORD = "alice", "alice's secret"
USER, USERS_PASSWORD = "carol", "carol's secret"


async def make_users(folder: Path) -> None:
    """An administrator and a user without rights, before the first start."""
    node = await Node.open(broker_config({"data.dir": str(folder)}))
    users = BrokerService(node).users
    # Tokens and certificates may mean the administrator, and not the user.
    await users.create(ANYONE, ADMIN, PASSWORD, is_admin=True, is_federated=True)
    await users.create(ANYONE, USER, USERS_PASSWORD)
    await node.close()


def secured_server(folder: Path, *options: str) -> ServerProcess:
    asyncio.run(make_users(folder))
    return ServerProcess(folder, "--set", "security.enabled=true", *options)
