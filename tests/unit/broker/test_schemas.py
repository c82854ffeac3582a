"""The registry's service: its worker process, what is cached, compatibility, restarts."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from goqueue.broker.node import Node
from goqueue.broker.schemas.jobs import Parsed, ParseJob
from goqueue.broker.schemas.schemas import Schemas
from goqueue.broker.schemas.worker import WAITING_MAX, SchemaWorker
from goqueue.model.errors import NotLeader, Overloaded, PolicyViolation
from goqueue.model.schemas.contexts import ContextId
from goqueue.model.schemas.formats import (
    InvalidContent,
    ResolvedReference,
    SchemaSource,
    SchemaType,
)
from goqueue.model.schemas.messages import CompatibilityLevel, NewSchema, Reference, SubjectConfig
from goqueue.schema_formats import make_validator
from goqueue.service.broker_service import BrokerService
from goqueue.service.schemas import SchemaService
from goqueue.state.schemas import RefusalKind, RegistryRefusal
from tests.callers import ANYONE
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio

WAIT_SECONDS = 60


def record(*fields: dict[str, object], name: str = "User") -> NewSchema:
    text = json.dumps({"type": "record", "name": name, "fields": fields})
    return NewSchema(SchemaType.AVRO, text)


NAME: dict[str, object] = {"name": "name", "type": "string"}
AGE: dict[str, object] = {"name": "age", "type": "int"}
AGE_OR_0: dict[str, object] = {**AGE, "default": 0}


@pytest.fixture
async def broker(open_broker: OpenBroker) -> AsyncIterator[Node]:
    async with open_broker(schema__max__bytes="20000") as opened:
        yield opened


@pytest.fixture
def schemas(broker: Node) -> SchemaService:
    return BrokerService(broker).schemas


@pytest.fixture
def inside(broker: Node) -> Schemas:
    """What clients do not see."""
    return broker.schemas


async def refused(work: Awaitable[object]) -> RegistryRefusal:
    with pytest.raises(RegistryRefusal) as raised:
        await work
    return raised.value


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():
            await asyncio.sleep(0.001)


# --- the service --------------------------------------------------------------------------


async def test_nothing_is_started_or_made_before_it_is_needed(broker: Node) -> None:
    assert not broker.schemas.catalogues.now.schemas
    assert "_schemas" not in broker.image.topics
    assert broker.schemas.worker.pid is None


async def test_only_the_registry_writes_its_topic(broker: Node, schemas: SchemaService) -> None:
    await schemas.register(ANYONE, "users", record(NAME))
    with pytest.raises(PolicyViolation):
        await BrokerService(broker).log.produce(ANYONE, "_schemas", 0, b"", acks=-1, timeout_ms=100)


async def test_what_was_parsed_once_needs_no_worker(
    schemas: SchemaService, inside: Schemas
) -> None:
    first = await schemas.register(ANYONE, "users", record(NAME))
    await inside.worker.close()
    assert await schemas.register(ANYONE, "users", record(NAME)) == first
    assert (await schemas.look_up(ANYONE, "users", record(NAME))).version.number == 1


async def test_restart(open_broker: OpenBroker) -> None:
    async with open_broker() as broker:
        await BrokerService(broker).schemas.register(ANYONE, "base", record(NAME, name="Base"))
        holder = record({"name": "base", "type": "Base"}, name="Holder")
        holder = holder._replace(references=(Reference("Base", "base", -1),))
        registered = await BrokerService(broker).schemas.register(ANYONE, "holders", holder)
        assert registered.schema.identity.references == (Reference("Base", "base", 1),)
    async with open_broker() as broker:
        schemas = broker.schemas
        assert schemas.worker.starts == 0
        source = schemas.source(ContextId(".", 2))
        base = schemas.source(ContextId(".", 1)).text
        assert source == SchemaSource(
            SchemaType.AVRO, registered.schema.text, (ResolvedReference("Base", base),)
        )
        assert schemas.subjects_of(ContextId(".", 2)) == ["holders"]
        again = await BrokerService(broker).schemas.register(ANYONE, "holders", holder)
        assert again == registered
    with pytest.raises(NotLeader):
        _ = schemas.catalogues.now


async def test_one_id_for_many_at_once(schemas: SchemaService, inside: Schemas) -> None:
    wanted = [record(NAME), record(NAME, AGE_OR_0)] * 20
    found = await asyncio.gather(*(schemas.register(ANYONE, "users", new) for new in wanted))
    assert len({registered.schema.id for registered in found}) == 2
    assert [v.number for v in inside.catalogues.now.versions("users")] == [1, 2]


async def test_many_at_once_are_parsed_once(schemas: SchemaService) -> None:
    many = [schemas.register(ANYONE, f"users-{n}", record(NAME)) for n in range(WAITING_MAX + 100)]
    found = await asyncio.gather(*many)
    assert {registered.schema.id for registered in found} == {1}


@pytest.mark.parametrize(
    ("level", "adds_required", "adds_optional", "drops"),
    [
        ("NONE", True, True, True),
        ("BACKWARD", False, True, True),
        ("FORWARD", True, True, False),
        ("FULL", False, True, False),
    ],
)
async def test_levels(
    schemas: SchemaService, level: str, adds_required: bool, adds_optional: bool, drops: bool
) -> None:
    await schemas.set_config(ANYONE, None, SubjectConfig(compatibility=CompatibilityLevel(level)))
    await schemas.register(ANYONE, "users", record(NAME))
    for new, expected in (
        (record(NAME, AGE), adds_required),
        (record(NAME, AGE_OR_0), adds_optional),
        (record(), drops),
    ):
        mismatch = await schemas.check(ANYONE, "users", new)
        assert (mismatch is None) is expected
        if not expected:
            assert (
                await refused(schemas.register(ANYONE, "users", new))
            ).kind is RefusalKind.INCOMPATIBLE


async def test_transitive_levels_look_at_all_versions(schemas: SchemaService) -> None:
    await schemas.register(ANYONE, "users", record(NAME))
    await schemas.register(ANYONE, "users", record())
    number = record({"name": "name", "type": "int", "default": 0})
    assert await schemas.check(ANYONE, "users", number) is None
    transitive = SubjectConfig(compatibility=CompatibilityLevel.BACKWARD_TRANSITIVE)
    await schemas.set_config(ANYONE, "users", transitive)
    mismatch = await schemas.check(ANYONE, "users", number)
    assert mismatch is not None
    assert mismatch.old.number == 1
    assert "{oldSchemaVersion: 1}" in mismatch.messages()


BAD_TEXTS = [
    ("", RefusalKind.INVALID_SCHEMA),
    ("no schema", RefusalKind.INVALID_SCHEMA),
    ("[" * 15_000, RefusalKind.INVALID_SCHEMA),
    ('{"type":"array","items":' * 700, RefusalKind.INVALID_SCHEMA),
    ('"' + "x" * 20_000 + '"', RefusalKind.SCHEMA_TOO_LARGE),
    ('"' + "ü" * 12_000 + '"', RefusalKind.SCHEMA_TOO_LARGE),
]


async def test_bad_schemas(schemas: SchemaService, inside: Schemas) -> None:
    for schema_type in SchemaType:
        for text, kind in BAD_TEXTS:
            new = NewSchema(schema_type, text)
            assert (await refused(schemas.register(ANYONE, "a", new))).kind is kind, (
                schema_type,
                text,
            )
    assert not inside.catalogues.now.schemas


async def test_the_bound_of_all_schemas_is_a_setting(open_broker: OpenBroker) -> None:
    async with open_broker(all__schemas__max__bytes="65536") as broker:
        schemas = BrokerService(broker).schemas
        for number in range(3):
            await schemas.register(ANYONE, f"a{number}", record(NAME, name="x" * (20_000 + number)))
        refusal = await refused(schemas.register(ANYONE, "b", record(NAME, name="y" * 20_000)))
    assert refusal.kind is RefusalKind.NOT_PERMITTED
    assert "all.schemas.max.bytes is 65536" in str(refusal)


async def test_protobuf_can_be_had_compiled(schemas: SchemaService, inside: Schemas) -> None:
    first = 'syntax = "proto3"; message Name { string text = 1; }'
    await schemas.register(ANYONE, "name", NewSchema(SchemaType.PROTOBUF, first))
    text = 'syntax = "proto3"; import "name.proto"; message User { Name name = 1; }'
    reference = Reference("name.proto", "name", 1)
    registered = await schemas.register(
        ANYONE, "user", NewSchema(SchemaType.PROTOBUF, text, (reference,))
    )
    compiled = await inside.compiled(registered.schema.context_id)
    assert [reference.name for reference in compiled.references] == ["name.proto"]
    assert "syntax" not in compiled.text + compiled.references[0].text
    check = make_validator(compiled)
    check(bytes([0]) + bytes([10, 4, 10, 2]) + b"hi")
    with pytest.raises(InvalidContent):
        check(bytes([0]) + bytes([10, 4, 10, 2]) + b"\xff\xff")
    avro = await schemas.register(ANYONE, "avro", record(NAME))
    assert await inside.compiled(avro.schema.context_id) == inside.source(avro.schema.context_id)


async def test_bad_subjects(schemas: SchemaService) -> None:
    for subject in ("", " ", "a\nb", "__GLOBAL", ":.context:", ":.__GLOBAL:a", ":*:a", "x" * 1_025):
        refusal = await refused(schemas.register(ANYONE, subject, record(NAME)))
        assert refusal.kind is RefusalKind.INVALID_SUBJECT


# --- the worker ---------------------------------------------------------------------------

STRING = ParseJob(SchemaSource(SchemaType.AVRO, '"string"'), normalize=False)


@pytest.fixture
async def worker() -> AsyncIterator[SchemaWorker]:
    made = SchemaWorker()
    yield made
    await made.close()


async def test_a_worker_that_was_killed_is_replaced(worker: SchemaWorker) -> None:
    await worker.run(STRING, Parsed)
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    assert (await worker.run(STRING, Parsed)).schema.canonical == '"string"'
    assert worker.starts == 2


async def test_a_schema_that_kills_the_worker_is_refused(worker: SchemaWorker) -> None:
    job = asyncio.create_task(worker.run(STRING, Parsed))
    killed: set[int | None] = {None}
    while len(killed) < 3:
        await until(lambda: worker.pid not in killed)
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        killed.add(worker.pid)
    assert (await refused(job)).kind is RefusalKind.INVALID_SCHEMA
    await worker.run(STRING, Parsed)


async def test_a_job_that_takes_too_long_is_ended() -> None:
    worker = SchemaWorker(job_seconds_max=0.2)
    job = asyncio.create_task(worker.run(STRING, Parsed))
    try:
        await until(lambda: worker.pid is not None)
        pid = worker.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        refusal = await refused(job)
        assert refusal.kind is RefusalKind.INVALID_SCHEMA
        assert "0.2 s" in refusal.message
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    finally:
        await worker.close()


async def test_a_client_that_leaves_does_not_confuse_the_next(worker: SchemaWorker) -> None:
    other = ParseJob(SchemaSource(SchemaType.AVRO, '"int"'), normalize=False)
    job = asyncio.create_task(worker.run(other, Parsed))
    await until(lambda: worker.pid is not None)
    job.cancel()
    await asyncio.wait([job])
    assert (await worker.run(STRING, Parsed)).schema.canonical == '"string"'


async def test_an_idle_worker_ends() -> None:
    worker = SchemaWorker(idle_seconds=0.01)
    try:
        await worker.run(STRING, Parsed)
        pid = worker.pid
        assert pid is not None
        await until(lambda: not Path(f"/proc/{pid}/fd/0").exists())
        await worker.run(STRING, Parsed)
        assert worker.starts == 2
    finally:
        await worker.close()


async def test_jobs_that_wait_are_bounded(worker: SchemaWorker) -> None:
    jobs = [asyncio.create_task(worker.run(STRING, Parsed)) for _ in range(WAITING_MAX + 5)]
    answers = await asyncio.gather(*jobs, return_exceptions=True)
    assert sum(isinstance(answer, Overloaded) for answer in answers) == 5
