"""/schemas: by id, by guid, all of them."""

from collections.abc import Iterator
from itertools import islice
from typing import Final
from uuid import UUID

import msgspec

from goqueue.doors.registry.answers import (
    LongList,
    PlainText,
    SchemaAnswer,
    VersionAnswer,
    schema_answer,
)
from goqueue.doors.registry.requests import Call, page, page_bounds, parse_id
from goqueue.doors.registry.subjects import VERSIONS_LISTED_MAX, subject_prefix
from goqueue.model.schemas.errors import schema_not_found
from goqueue.model.schemas.formats import SchemaType
from goqueue.model.schemas.messages import StoredSchema, Version

# As Confluent's registry has it; there is an offset for the rest.
SCHEMAS_LISTED_MAX: Final = 1_000


class Stats(msgspec.Struct, frozen=True, rename="camel"):
    subjects: int
    versions: int
    deleted_versions: int
    schemas: int
    highest_id: int
    types: dict[str, int]
    compatibility_level: str
    mode: str


async def list_schemas(call: Call) -> LongList:
    catalogue, query = call.schemas.catalogue, call.query
    deleted, latest_only = query.flag("deleted"), query.flag("latestOnly")
    prefix = subject_prefix(call)
    names = sorted(n for n in catalogue.subjects(deleted=deleted) if n.startswith(prefix))
    found = (
        (catalogue.schema(version.schema_id), version)
        for name in names
        for version in catalogue.versions(name, deleted=deleted)[-1 if latest_only else 0 :]
    )
    # All that is listed is what is registered now, however slowly the client takes it.
    chosen = list(islice(found, *page_bounds(query, most=SCHEMAS_LISTED_MAX)))
    return LongList(schema_answer(schema, version) for schema, version in chosen)


async def show(call: Call) -> SchemaAnswer:
    """With the version that the named subject has of it."""
    schema = _schema(call)
    wanted = call.query.text("subject")
    uses = call.schemas.catalogue.uses(schema.id, deleted=True)
    version = next((use for use in reversed(uses) if use.subject == wanted), None)
    max_id = call.schemas.catalogue.highest_id if call.query.flag("fetchMaxId") else None
    text = await call.schemas.rendered(schema, call.query.text("format"))
    answer = schema_answer(schema, version, text=text)
    return msgspec.structs.replace(answer, id=None, max_id=max_id)


async def show_text(call: Call) -> PlainText:
    schema = _schema(call)
    text = await call.schemas.rendered(schema, call.query.text("format"))
    return PlainText(schema.text if text is None else text)


async def list_subjects(call: Call) -> list[str]:
    names = dict.fromkeys(version.subject for version in _uses(call))
    return page(list(names), call.query, most=VERSIONS_LISTED_MAX)


async def list_versions(call: Call) -> list[VersionAnswer]:
    found = [VersionAnswer(version.subject, version.number) for version in _uses(call)]
    return page(found, call.query, most=VERSIONS_LISTED_MAX)


async def show_by_guid(call: Call) -> SchemaAnswer:
    schema = _by_guid(call)
    text = await call.schemas.rendered(schema, call.query.text("format"))
    return schema_answer(schema, text=text)


async def list_ids(call: Call) -> list[dict[str, object]]:
    return [{"context": ".", "id": _by_guid(call).id}]


async def list_types(_call: Call) -> list[str]:
    return [SchemaType.JSON, SchemaType.PROTOBUF, SchemaType.AVRO]


async def stats(call: Call) -> Stats:
    catalogue = call.schemas.catalogue
    deleted = sum(version.is_deleted for version in catalogue.all_versions())
    versions = sum(1 for _ in catalogue.all_versions())
    types = dict.fromkeys(SchemaType.__members__, 0)
    for schema in catalogue.schemas.values():
        types[schema.identity.type] += 1
    return Stats(
        subjects=sum(1 for _ in catalogue.subjects()),
        versions=versions - deleted,
        deleted_versions=deleted,
        schemas=len(catalogue.schemas),
        highest_id=catalogue.highest_id,
        types=types,
        compatibility_level=catalogue.compatibility_of(None),
        mode=catalogue.mode_of(None),
    )


def _schema(call: Call) -> StoredSchema:
    return call.schemas.catalogue.schema(parse_id(call.parts[0]))


def _by_guid(call: Call) -> StoredSchema:
    try:
        guid = UUID(call.parts[0])
    except ValueError:
        raise schema_not_found(call.parts[0]) from None
    return call.schemas.catalogue.schema_by_guid(guid)


def _uses(call: Call) -> Iterator[Version]:
    schema, wanted = _schema(call), call.query.text("subject")
    for version in call.schemas.catalogue.uses(schema.id, deleted=call.query.flag("deleted")):
        if wanted in (None, version.subject):
            yield version
