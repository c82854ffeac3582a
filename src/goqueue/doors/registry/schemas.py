"""/schemas: by id, by guid, all of them."""

from typing import Final
from uuid import UUID

import msgspec

from goqueue.doors.registry.answers import (
    QUALIFIED,
    LongList,
    PlainText,
    SchemaAnswer,
    VersionAnswer,
    schema_answer,
)
from goqueue.doors.registry.requests import Call, page, page_bounds, parse_id
from goqueue.doors.registry.subjects import VERSIONS_LISTED_MAX
from goqueue.model.schemas.contexts import parse_subject
from goqueue.model.schemas.errors import schema_not_found
from goqueue.model.schemas.formats import SchemaType
from goqueue.model.schemas.messages import Version
from goqueue.model.schemas.tenant_subjects import local_context

# As Confluent's registry has it; there is an offset for the rest.
SCHEMAS_LISTED_MAX: Final = 1_000


class Stats(msgspec.Struct, frozen=True, rename="camel"):
    contexts: int
    subjects: int
    versions: int
    deleted_versions: int
    schemas: int
    highest_id: int
    types: dict[str, int]
    compatibility_level: str
    mode: str


async def list_schemas(call: Call) -> LongList:
    """All that is listed is what is registered now, however slowly the client takes it."""
    chosen = await call.service.schemas.schemas(
        call.caller,
        call.subject_prefix,
        page_bounds(call.query, most=SCHEMAS_LISTED_MAX),
        deleted=call.query.flag("deleted"),
        latest_only=call.query.flag("latestOnly"),
    )
    return LongList(schema_answer(schema, version) for schema, version in chosen)


async def show(call: Call) -> SchemaAnswer:
    """With the version that the named subject has of it."""
    shown = await call.service.schemas.schema(
        call.caller, parse_id(call.parts[0]), call.subject_of_id, text_format=call.text_format
    )
    max_id = shown.highest_id if call.query.flag("fetchMaxId") else None
    answer = schema_answer(
        shown.schema,
        shown.version,
        text=shown.text,
        qualified_references=call.query.text("referenceFormat") == QUALIFIED,
    )
    return msgspec.structs.replace(answer, id=None, max_id=max_id)


async def show_text(call: Call) -> PlainText:
    shown = await call.service.schemas.schema(
        call.caller, parse_id(call.parts[0]), call.subject_of_id, text_format=call.text_format
    )
    return PlainText(shown.text)


async def list_subjects(call: Call) -> list[str]:
    names = dict.fromkeys(version.subject for version in await _uses(call))
    return page(list(names), call.query, most=VERSIONS_LISTED_MAX)


async def list_versions(call: Call) -> list[VersionAnswer]:
    found = [VersionAnswer(version.subject, version.number) for version in await _uses(call)]
    return page(found, call.query, most=VERSIONS_LISTED_MAX)


async def show_by_guid(call: Call) -> SchemaAnswer:
    shown = await call.service.schemas.schema_by_guid(
        call.caller, _guid(call), text_format=call.text_format
    )
    return schema_answer(shown.schema, text=shown.text)


async def list_ids(call: Call) -> list[dict[str, object]]:
    ids = await call.service.schemas.ids_of_guid(call.caller, _guid(call))
    return [
        {"context": local_context(call.tenant, context) if call.tenant else context, "id": number}
        for context, number in ids
    ]


async def list_types(_call: Call) -> list[str]:
    return [SchemaType.JSON, SchemaType.PROTOBUF, SchemaType.AVRO]


async def stats(call: Call) -> Stats:
    figures = await call.service.schemas.figures(call.caller)
    return Stats(
        contexts=figures.contexts,
        subjects=figures.subjects,
        versions=figures.versions,
        deleted_versions=figures.deleted_versions,
        schemas=sum(figures.types.values()),
        highest_id=figures.highest_id,
        types={str(each): count for each, count in figures.types.items()},
        compatibility_level=figures.compatibility,
        mode=figures.mode,
    )


def _guid(call: Call) -> UUID:
    try:
        return UUID(call.parts[0])
    except ValueError:
        raise schema_not_found(call.parts[0]) from None


async def _uses(call: Call) -> list[Version]:
    """Of the subject that is asked for, if one is; that of another context has its name."""
    subject = call.subject_of_id
    uses = await call.service.schemas.uses(
        call.caller, parse_id(call.parts[0]), subject, deleted=call.query.flag("deleted")
    )
    name = parse_subject(subject).subject
    return [each for each in uses if not name or parse_subject(each.subject).subject == name]
