"""A broker at which clients log in, with a clock that tests drive."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from goqueue.broker.node import Node
from goqueue.model.broker_config import broker_config
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE

ADMINISTRATORS = ("alice", "bob")


@dataclass
class Clock:
    now_ms: int = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


class Everybody:
    """Rules for what a test makes ready."""

    def allows(self, *_: object) -> bool:
        return True


def without_rules(node: Node) -> BrokerService:
    return BrokerService(node, Everybody())


@asynccontextmanager
async def secured_broker(
    folder: Path, settings: dict[str, str], clock: Clock
) -> AsyncIterator[Node]:
    """With alice and bob, whose passwords are `alice's` and `bob's`; carol is no administrator."""
    texts = {"data.dir": str(folder), "kafka.port": "0", "security.enabled": "true", **settings}
    node = await Node.open(broker_config(texts), clock_ms=clock)
    users = without_rules(node).users
    for name in (*ADMINISTRATORS, "carol"):
        await users.create(ANYONE, name, f"{name}'s", is_admin=name in ADMINISTRATORS)
    yield node
    await node.close()
