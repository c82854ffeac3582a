"""/subjects: names, versions, registering, looking up, deleting."""

from typing import Final

from goqueue.doors.registry.answers import (
    QUALIFIED,
    PlainText,
    RegisteredAnswer,
    SchemaAnswer,
    schema_answer,
)
from goqueue.doors.registry.requests import (
    Call,
    new_schema,
    page,
    parse_version,
)
from goqueue.model.schemas.messages import ShownVersion

# As many as Confluent's registry lists when it is not told otherwise.
SUBJECTS_LISTED_MAX: Final = 20_000
VERSIONS_LISTED_MAX: Final = 20_000


async def list_subjects(call: Call) -> list[str]:
    query = call.query
    found = await call.service.schemas.subjects(
        call.caller,
        call.subject_prefix,
        deleted=query.flag("deleted"),
        deleted_only=query.flag("deletedOnly", "deleted_only"),
    )
    return page(found, query, most=SUBJECTS_LISTED_MAX)


async def look_up(call: Call) -> SchemaAnswer:
    shown = await call.service.schemas.look_up(
        call.caller,
        call.subject,
        await new_schema(call),
        normalize=call.query.flag("normalize"),
        deleted=call.query.flag("deleted"),
        text_format=call.text_format,
    )
    return _answer(shown)


async def delete_subject(call: Call) -> list[int]:
    return await call.service.schemas.delete_subject(
        call.caller, call.subject, is_permanent=call.query.flag("permanent")
    )


async def latest_with_metadata(call: Call) -> SchemaAnswer:
    """The newest version whose metadata has all the given properties."""
    query = call.query
    shown = await call.service.schemas.latest_with_metadata(
        call.caller,
        call.subject,
        list(zip(query.texts("key"), query.texts("value"), strict=False)),
        deleted=query.flag("deleted"),
        text_format=call.text_format,
    )
    return _answer(shown)


# --- versions -----------------------------------------------------------------------------


async def list_versions(call: Call) -> list[int]:
    query = call.query
    only = query.flag("deletedOnly", "deleted_only")
    as_negative = query.flag("deletedAsNegative")
    versions = await call.service.schemas.versions(
        call.caller, call.subject, deleted=only or as_negative or query.flag("deleted")
    )
    numbers = [
        -version.number if version.is_deleted and as_negative else version.number
        for version in versions
        if version.is_deleted or not only
    ]
    return page(numbers, query, most=VERSIONS_LISTED_MAX)


async def register(call: Call) -> RegisteredAnswer:
    """Without the schema: clients would take it for the one they sent, and keep it."""
    schema, version = await call.service.schemas.register(
        call.caller, call.subject, await new_schema(call), normalize=call.query.flag("normalize")
    )
    return RegisteredAnswer(schema.id, version.number, str(schema.guid))


async def show_version(call: Call) -> SchemaAnswer:
    shown = await _version(call)
    is_qualified = call.query.text("referenceFormat") == QUALIFIED
    return schema_answer(
        shown.schema, shown.version, text=shown.text, qualified_references=is_qualified
    )


async def show_version_text(call: Call) -> PlainText:
    return PlainText((await _version(call)).text)


async def delete_version(call: Call) -> int:
    return await call.service.schemas.delete_version(
        call.caller,
        call.subject,
        parse_version(call.parts[1]),
        is_permanent=call.query.flag("permanent"),
    )


async def list_referrers(call: Call) -> list[int]:
    number = parse_version(call.parts[1])
    referrers = await call.service.schemas.referrers(call.caller, call.subject, number)
    return page(referrers, call.query, most=VERSIONS_LISTED_MAX)


async def _version(call: Call) -> ShownVersion:
    return await call.service.schemas.version(
        call.caller,
        call.subject,
        parse_version(call.parts[1]),
        deleted=call.query.flag("deleted"),
        text_format=call.text_format,
    )


def _answer(shown: ShownVersion) -> SchemaAnswer:
    return schema_answer(shown.schema, shown.version, text=shown.text)
