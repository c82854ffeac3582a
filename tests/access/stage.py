"""A broker with something of everything in it, and doors at which the real rules decide."""

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
import uvloop

from goqueue.model.rights import Verb
from goqueue.service.needs import Need
from tests.access.canaries import FIFO_QUEUE, SOURCE_QUEUE, TOPIC, Doors, World, canary_world
from tests.access.exact_rights import EVERYTHING, AllBut, ExactRights

T = TypeVar("T")


class Stage:
    """A broker with doors at which the real rules decide; another one after it was spoiled."""

    def __init__(self, runner: asyncio.Runner, folder: Path) -> None:
        self._runner = runner
        self._folder = folder
        self._count = 0
        self.rights = ExactRights()
        self._opened: Any = None
        self.world: World
        self.doors: Doors

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def prepare(self) -> None:
        if self._opened is None:
            self._count += 1
            self._opened = canary_world(self._folder / str(self._count))
            self.world = self.run(self._opened.__aenter__())
            self.doors = self.run(Doors.open(self.world.node, self.rights))
            self.run(self.world.node.announce(*self.doors.kafka.address, 0))

    def used_for(self, needs: Iterable[Need]) -> None:
        """What was allowed may have left less than the next test asks for."""
        topics = self.world.node.image.topics
        is_whole = {TOPIC, FIFO_QUEUE, SOURCE_QUEUE} <= topics.keys()
        if not is_whole or Verb.DELETE in {need.verb for need in needs}:
            self.clear()

    def clear(self) -> None:
        if self._opened is not None:
            self.run(self.doors.close())
            self.run(self._opened.__aexit__(None, None, None))
            self._opened = None

    @contextmanager
    def everything_allowed(self, given: AllBut) -> Iterator[None]:
        self.rights.give(EVERYTHING)
        yield
        self.rights.give(*given)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        opened = Stage(runner, tmp_path_factory.mktemp("exactly"))
        yield opened
        opened.clear()
