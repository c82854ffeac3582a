"""Messages held against schemas that are made to be slow: the broker's other work goes on."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from goqueue.broker.node import Node
from goqueue.broker.schemas.jobs import Parsed, ParseJob
from goqueue.broker.schemas.worker import QUICK_SECONDS, SchemaWorker
from goqueue.model.errors import UnfitRecord
from goqueue.model.records import NewRecord
from goqueue.model.rights import WritableTopic
from goqueue.model.schemas.formats import SchemaSource, SchemaType
from goqueue.model.schemas.messages import NewSchema
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.broker.conftest import OpenBroker

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

TOPIC = WritableTopic("orders")
SELF = {"$ref": "#"}
WAIT_SECONDS = 60
# What the loop may be held up on a machine that others use, too.
PAUSE_SECONDS_MAX = 1.0


@pytest.fixture
async def broker(open_broker: OpenBroker) -> AsyncIterator[Node]:
    async with open_broker(schema__validation__request__cpu__ms="1500") as opened:
        config = {"schema.validation.value": "content"}
        new = NewTopic(name="orders", partitions=1, config=config)
        await BrokerService(opened).topics.create(ANYONE, new)
        yield opened


async def register(broker: Node, schema: dict[str, Any]) -> None:
    new = NewSchema(SchemaType.JSON, json.dumps(schema))
    await BrokerService(broker).schemas.register(ANYONE, "orders-value", new)


async def unfit(broker: Node, *values: Any) -> dict[int, str]:
    records = [
        NewRecord(key=None, value=v if isinstance(v, bytes) else json.dumps(v).encode())
        for v in values
    ]
    found = await broker.validation.unfit_records(TOPIC, records)
    assert all(isinstance(refusal, UnfitRecord) for refusal in found.values())
    return {index: str(refusal) for index, refusal in found.items()}


@asynccontextmanager
async def longest_pause() -> AsyncIterator[Callable[[], float]]:
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        clock = asyncio.get_running_loop().time
        while True:
            before = clock()
            await asyncio.sleep(0.01)
            longest = max(longest, clock() - before)

    ticking = asyncio.create_task(tick())
    try:
        yield lambda: longest
    finally:
        ticking.cancel()


def nested(levels: int, inner: Any) -> Any:
    for _ in range(levels):
        inner = [inner]
    return inner


TWICE = [{"type": "array", "items": SELF}, {"type": "array", "minItems": 1, "items": SELF}]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"anyOf": TWICE}, nested(90, 5)),
        ({"oneOf": TWICE}, nested(90, [])),
        ({"pattern": "^(?=(a+)+$)b"}, "a" * 36_000),
        ({"items": {"pattern": r"^(?:(a+)\1)+$(?<!b)"}}, ["a" * 3_000 + "!"] * 10),
    ],
)
async def test_a_check_without_an_end_is_ended(
    broker: Node, schema: dict[str, Any], message: Any
) -> None:
    await register(broker, schema)
    async with longest_pause() as pause:
        found = await unfit(broker, message)
        assert pause() < PAUSE_SECONDS_MAX
    assert "does not fit schema 1" in found[0]
    # The next one has a process again.
    for error in (await unfit(broker, {"anyOf": 1})).values():
        assert "schema.validation.cpu.ms" not in error


async def test_a_check_that_takes_too_long_says_so(broker: Node) -> None:
    definitions: dict[str, Any] = {
        f"d{n}": {"anyOf": [{"$ref": f"#/definitions/d{n + 1}"}, {"minimum": n + 10}]}
        | {"allOf": [{"$ref": f"#/definitions/d{n + 1}"}]}
        for n in range(40)
    }
    definitions["d40"] = {"type": "integer"}
    await register(broker, {"allOf": [{"$ref": "#/definitions/d0"}], "definitions": definitions})
    async with longest_pause() as pause:
        found = await unfit(broker, "text", 5, 6, 7, 8, 9)
        assert pause() < PAUSE_SECONDS_MAX
    assert "500 ms of processor time, which schema.validation.cpu.ms allows" in found[1]
    # A batch of them is not waited for.
    assert "schema.validation.request.cpu.ms" in found[5]


async def test_reasons_of_deep_messages(broker: Node) -> None:
    await register(broker, {"type": "array", "items": SELF})
    assert await unfit(broker, nested(20, [])) == {}
    assert broker.checker.pid is None
    assert f"{'/0' * 20}: 5 is not of type" in (await unfit(broker, nested(20, 5)))[0]
    assert broker.checker.pid is not None


async def test_large_messages_are_checked_elsewhere(broker: Node) -> None:
    await register(broker, {"items": {"enum": list(range(2_000))}})
    assert await unfit(broker, [1, 2, 3]) == {}
    assert broker.checker.pid is None
    many = [n % 2_000 for n in range(50_000)]
    async with longest_pause() as pause:
        found = await unfit(broker, many, [*many, -1])
        assert pause() < PAUSE_SECONDS_MAX
    assert list(found) == [1]
    assert "/50000: -1 is not one of" in found[1]


async def test_look_around_is_checked_elsewhere(broker: Node) -> None:
    await register(broker, {"pattern": r"^(?!\s*$).+"})
    found = await unfit(broker, "text", "  ")
    assert list(found) == [1]
    assert broker.checker.pid is not None


async def test_a_checker_that_was_killed_is_replaced(broker: Node) -> None:
    await register(broker, {"pattern": "^(?=a)"})
    assert await unfit(broker, "a") == {}
    assert broker.checker.pid is not None
    os.kill(broker.checker.pid, signal.SIGKILL)
    assert list(await unfit(broker, "a", "b")) == [1]


async def test_many_at_once_need_one_look_at_the_schema(broker: Node) -> None:
    await register(broker, {"type": "integer"})
    found = await asyncio.gather(*(unfit(broker, 1) for _ in range(2_000)))
    assert found == [{}] * 2_000


# --- the registry's own worker ------------------------------------------------------------


def parse_job(text: str) -> ParseJob:
    return ParseJob(SchemaSource(SchemaType.AVRO, text), normalize=False)


@pytest.fixture
async def worker() -> AsyncIterator[SchemaWorker]:
    made = SchemaWorker()
    yield made
    await made.close()


async def within(seconds: float, work: Awaitable[Any]) -> Any:
    async with asyncio.timeout(seconds):
        return await work


def environment_of(pid: int | None) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


async def test_the_worker_has_no_environment(
    worker: SchemaWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    await worker.run(parse_job('"string"'), Parsed)
    environment = environment_of(worker.pid)
    assert b"PYTHONPATH=" in environment
    assert b"hush" not in environment


async def test_slow_schemas_do_not_hold_up_the_others(worker: SchemaWorker) -> None:
    """They are made slow here by stopping the process that looks at them."""
    await worker.run(parse_job('"string"'), Parsed)
    stopped = worker.pid
    assert stopped is not None
    os.kill(stopped, signal.SIGSTOP)
    slow = asyncio.create_task(worker.run(parse_job('"bytes"'), Parsed))
    await asyncio.sleep(QUICK_SECONDS / 2)
    answer = await within(WAIT_SECONDS, worker.run(parse_job('"int"'), Parsed))
    assert answer.schema.canonical == '"int"'
    assert worker.pid != stopped
    assert (await within(WAIT_SECONDS, slow)).schema.canonical == '"bytes"'
    assert worker.starts == 3


async def test_those_who_ask_take_turns(worker: SchemaWorker) -> None:
    done: list[str] = []

    async def ask(asker: str) -> None:
        await worker.run(parse_job('"string"'), Parsed, asker=asker)
        done.append(asker)

    many = [asyncio.create_task(ask("one")) for _ in range(200)]
    await asyncio.sleep(0)
    other = asyncio.create_task(ask("other"))
    left = many.pop(100)
    left.cancel()
    await within(WAIT_SECONDS, asyncio.gather(*many, other))
    assert done.index("other") <= 2
    assert len(done) == 200
