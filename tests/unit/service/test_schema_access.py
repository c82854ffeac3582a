"""Who may do what in the schema registry."""

import json
from collections.abc import AsyncIterator, Awaitable

import pytest

from goqueue.broker.node import Node
from goqueue.model.errors import AccessDenied, ClusterAccessDenied, SubjectAccessDenied
from goqueue.model.rights import Verb
from goqueue.model.schemas.errors import RefusalKind, RegistryRefusal
from goqueue.model.schemas.formats import SchemaType
from goqueue.model.schemas.messages import (
    CompatibilityLevel,
    Mode,
    NewSchema,
    Reference,
    SubjectConfig,
)
from goqueue.service.broker_service import BrokerService
from goqueue.service.schemas import SchemaService
from tests.callers import ANYONE
from tests.rules import Grant, Granted, cluster, subject
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio

SECRET = "canary-subject"
FIRST = (0, 100)


def schema(name: str) -> NewSchema:
    return NewSchema(SchemaType.AVRO, json.dumps({"type": "record", "name": name, "fields": []}))


REFERRING = NewSchema(
    SchemaType.AVRO,
    json.dumps({"type": "record", "name": "Outer", "fields": [{"name": "in", "type": "Secret"}]}),
    (Reference("Secret", SECRET, 1),),
)


@pytest.fixture
async def broker(open_broker: OpenBroker) -> AsyncIterator[Node]:
    """Id 1 is under `users`, id 2 under the secret subject."""
    async with open_broker() as opened:
        schemas = BrokerService(opened).schemas
        await schemas.register(ANYONE, "users", schema("User"))
        await schemas.register(ANYONE, SECRET, schema("Secret"))
        await schemas.set_config(ANYONE, SECRET, SubjectConfig(normalize=True))
        yield opened


def allowed(broker: Node, *grants: Grant) -> SchemaService:
    return BrokerService(broker, Granted(*grants)).schemas


async def denied(work: Awaitable[object]) -> AccessDenied:
    with pytest.raises(AccessDenied) as raised:
        await work
    return raised.value


async def not_found(work: Awaitable[object]) -> None:
    with pytest.raises(RegistryRefusal) as raised:
        await work
    assert raised.value.kind is RefusalKind.SCHEMA_NOT_FOUND


async def test_without_rights_nothing_is_seen_or_changed(broker: Node) -> None:
    nobody = allowed(broker)
    new = schema("Secret")
    for name in (SECRET, "not-there"):
        for work in (
            nobody.versions(ANYONE, name, deleted=True),
            nobody.version(ANYONE, name, 1),
            nobody.latest_with_metadata(ANYONE, name, []),
            nobody.referrers(ANYONE, name, 1),
            nobody.register(ANYONE, name, new),
            nobody.look_up(ANYONE, name, new),
            nobody.check(ANYONE, name, new),
            nobody.check_version(ANYONE, name, None, new),
            nobody.delete_version(ANYONE, name, 1, is_permanent=False),
            nobody.delete_subject(ANYONE, name, is_permanent=False),
            nobody.config(ANYONE, name),
            nobody.set_config(ANYONE, name, SubjectConfig(normalize=False)),
            nobody.delete_config(ANYONE, name),
            nobody.mode(ANYONE, name),
            nobody.set_mode(ANYONE, name, Mode.READONLY),
            nobody.delete_mode(ANYONE, name),
        ):
            assert isinstance(await denied(work), SubjectAccessDenied)
    for of_all in (
        nobody.figures(ANYONE),
        nobody.config(ANYONE, None),
        nobody.set_config(ANYONE, None, SubjectConfig(normalize=False)),
        nobody.delete_config(ANYONE, None),
        nobody.mode(ANYONE, None),
        nobody.set_mode(ANYONE, None, Mode.READONLY),
        nobody.delete_mode(ANYONE, None),
    ):
        assert isinstance(await denied(of_all), ClusterAccessDenied)
    assert await nobody.subjects(ANYONE, "", deleted=True, deleted_only=False) == []
    assert await nobody.schemas(ANYONE, "", FIRST, deleted=True, latest_only=False) == []

    everyone = BrokerService(broker).schemas
    names = await everyone.subjects(ANYONE, "", deleted=True, deleted_only=False)
    assert names == [SECRET, "users"]
    assert (await everyone.config(ANYONE, SECRET)).normalize is True
    assert await everyone.mode(ANYONE, None) is Mode.READWRITE


async def test_a_schema_by_id_needs_one_subject_that_has_it(broker: Node) -> None:
    everyone = BrokerService(broker).schemas
    await everyone.register(ANYONE, "also", schema("User"))
    guid = (await everyone.schema(ANYONE, 2)).schema.guid
    reader = allowed(broker, subject("users", Verb.READ))
    assert "User" in (await reader.schema(ANYONE, 1)).text
    assert [use.subject for use in await reader.uses(ANYONE, 1, deleted=True)] == ["users"]
    shown = await reader.schema(ANYONE, 1, subject="also")
    assert shown.version is None
    await not_found(reader.schema(ANYONE, 2))
    await not_found(reader.schema(ANYONE, 99))
    await not_found(reader.uses(ANYONE, 2, deleted=False))
    await not_found(reader.schema_by_guid(ANYONE, guid))
    listed = await reader.schemas(ANYONE, "", FIRST, deleted=False, latest_only=False)
    assert [registered.version.subject for registered in listed] == ["users"]


async def test_an_alias_needs_the_right_to_both(broker: Node) -> None:
    config = SubjectConfig(alias=SECRET)
    await BrokerService(broker).schemas.set_config(ANYONE, "users", config)
    reader = allowed(broker, subject("users", Verb.READ))
    await denied(reader.version(ANYONE, "users", None))
    both = allowed(broker, subject("users", Verb.READ), subject(SECRET, Verb.READ))
    assert (await both.version(ANYONE, "users", None)).version.subject == SECRET
    writer = allowed(broker, subject("users", Verb.WRITE), subject("users", Verb.DELETE))
    await denied(writer.register(ANYONE, "users", schema("Other")))
    await denied(writer.delete_subject(ANYONE, "users", is_permanent=False))


async def test_what_a_schema_refers_to_must_be_readable(broker: Node) -> None:
    own = (subject("users", Verb.WRITE), subject("users", Verb.READ))
    writer = allowed(broker, *own)
    for work in (
        writer.register(ANYONE, "users", REFERRING),
        writer.look_up(ANYONE, "users", REFERRING),
        writer.check(ANYONE, "users", REFERRING),
        writer.check_version(ANYONE, "users", None, REFERRING),
    ):
        await denied(work)
    await BrokerService(broker).schemas.set_config(
        ANYONE, None, SubjectConfig(compatibility=CompatibilityLevel.NONE)
    )
    both = allowed(broker, *own, subject(SECRET, Verb.READ))
    registered = await both.register(ANYONE, "users", REFERRING)
    assert await both.referrers(ANYONE, SECRET, 1) == [registered.schema.id]
    secret_only = allowed(broker, subject(SECRET, Verb.READ))
    assert await secret_only.referrers(ANYONE, SECRET, 1) == []


async def test_settings_of_all_are_the_clusters(broker: Node) -> None:
    config = SubjectConfig(normalize=True)
    reader = allowed(broker, cluster(Verb.DESCRIBE_CONFIGS))
    assert await reader.mode(ANYONE, None) is Mode.READWRITE
    await denied(reader.set_config(ANYONE, None, config))
    changer = allowed(broker, cluster(Verb.ALTER_CONFIGS))
    assert (await changer.set_config(ANYONE, None, config)).normalize is True
    await denied(changer.set_config(ANYONE, "users", config))
    own = allowed(broker, subject("users", Verb.ALTER_CONFIGS))
    assert (await own.set_config(ANYONE, "users", config)).normalize is True
    figures = await allowed(broker, cluster(Verb.DESCRIBE)).figures(ANYONE)
    assert (figures.subjects, figures.versions, figures.types[SchemaType.AVRO]) == (2, 2, 2)
