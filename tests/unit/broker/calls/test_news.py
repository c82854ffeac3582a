"""What must not begin before every broker knows of it."""

from typing import cast

import pytest

from goqueue.broker.calls import news
from goqueue.broker.calls.calls import Calls
from goqueue.broker.calls.news import News
from goqueue.model.errors import BrokerUnreachable
from goqueue.model.names import NodeId

pytestmark = pytest.mark.anyio

THERE = (NodeId(2), NodeId(3))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(news, "AGAIN_S", 0.001)


class FewCalls:
    """Two other brokers: `deaf` says how often each does not answer, `leaves` after how many asks
    the second is gone."""

    def __init__(self, deaf: int = 0, leaves: int | None = None) -> None:
        self.asked: list[NodeId] = []
        self._deaf = deaf
        self._leaves = leaves

    def serve(self, *_: object) -> None: ...

    def others(self) -> list[NodeId]:
        gone = self._leaves is not None and self.asked.count(THERE[1]) >= self._leaves
        return [THERE[0]] if gone else [*THERE]

    async def ask_broker(self, _: object, node: NodeId, *__: object, timeout_s: float) -> bool:
        self.asked.append(node)
        if node == THERE[1] and self.asked.count(node) <= self._deaf:
            raise BrokerUnreachable("it hangs")
        return timeout_s > 0


async def told_all(calls: FewCalls, within_s: float = 10.0) -> bool:
    return await News(cast(Calls, calls)).told_all(within_s)


async def test_all_are_told_and_each_only_until_it_has_heard() -> None:
    calls = FewCalls(deaf=3)
    assert await told_all(calls)
    assert calls.asked.count(THERE[0]) == 1
    assert calls.asked.count(THERE[1]) == 4


async def test_who_is_gone_need_not_be_told() -> None:
    assert await told_all(FewCalls(deaf=10**9, leaves=2))


async def test_there_is_an_end_to_it() -> None:
    assert not await told_all(FewCalls(deaf=10**9), within_s=0.01)
