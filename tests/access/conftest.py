import asyncio
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
import uvloop

from tests.access.canaries import Doors, World, canary_world
from tests.access.rule_sets import EverythingBut, NobodyMay

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One broker for all tests of a module, with doors for two kinds of callers."""

    runner: "asyncio.Runner"
    world: World
    nobody: NobodyMay
    # Doors at which nobody may do anything, and those at which all but one thing is allowed.
    closed: Doors
    but_one: EverythingBut
    nearly_open: Doors

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder: Path = tmp_path_factory.mktemp("access")
    nobody, but_one = NobodyMay(), EverythingBut()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        opened = canary_world(folder)
        world = runner.run(opened.__aenter__())
        closed = runner.run(Doors.open(world.node, nobody))
        nearly_open = runner.run(Doors.open(world.node, but_one))
        # Doors are ready once they have seen the broker announce itself.
        address = closed.kafka.address
        runner.run(world.node.announce(*address, 0))
        yield Scene(
            runner=runner,
            world=world,
            nobody=nobody,
            closed=closed,
            but_one=but_one,
            nearly_open=nearly_open,
        )
        runner.run(closed.close())
        runner.run(nearly_open.close())
        runner.run(opened.__aexit__(None, None, None))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
