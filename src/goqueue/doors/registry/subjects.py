"""/subjects: names, versions, registering, looking up, deleting."""

from typing import Final

from goqueue.broker.schemas.compatibility import property_of
from goqueue.doors.registry.answers import (
    PlainText,
    RegisteredAnswer,
    SchemaAnswer,
    schema_answer,
)
from goqueue.doors.registry.requests import (
    Call,
    in_default_context,
    new_schema,
    page,
    parse_version,
)
from goqueue.model.schemas.errors import schema_not_found, subject_not_found
from goqueue.model.schemas.messages import Version

# As many as Confluent's registry lists when it is not told otherwise.
SUBJECTS_LISTED_MAX: Final = 20_000
VERSIONS_LISTED_MAX: Final = 20_000
# How Confluent's clients write "in every context".
_ALL_CONTEXTS: Final = ":*:"


def subject_prefix(call: Call) -> str:
    prefix = (call.query.text("subjectPrefix") or "").removeprefix(_ALL_CONTEXTS)
    return in_default_context(prefix)


async def list_subjects(call: Call) -> list[str]:
    catalogue, query = call.schemas.catalogue, call.query
    prefix = subject_prefix(call)
    found = set(catalogue.subjects(deleted=query.flag("deleted", "deletedOnly", "deleted_only")))
    if query.flag("deletedOnly", "deleted_only"):
        found -= set(catalogue.subjects())
    return page(
        sorted(name for name in found if name.startswith(prefix)), query, most=SUBJECTS_LISTED_MAX
    )


async def look_up(call: Call) -> SchemaAnswer:
    version = await call.schemas.look_up(
        call.subject,
        await new_schema(call),
        normalize=call.query.flag("normalize"),
        deleted=call.query.flag("deleted"),
    )
    return await _shown(call, version)


async def delete_subject(call: Call) -> list[int]:
    return await call.schemas.delete_subject(
        call.subject, is_permanent=call.query.flag("permanent")
    )


async def latest_with_metadata(call: Call) -> SchemaAnswer:
    """The newest version whose metadata has all the given properties."""
    catalogue, query = call.schemas.catalogue, call.query
    versions = catalogue.versions(call.subject, deleted=query.flag("deleted"))
    if not versions:
        raise subject_not_found(call.subject)
    wanted = list(zip(query.texts("key"), query.texts("value"), strict=False))
    for version in reversed(versions):
        metadata = catalogue.schema(version.schema_id).identity.metadata
        if all(property_of(metadata, key) == value for key, value in wanted):
            return await _shown(call, version)
    raise schema_not_found()


# --- versions -----------------------------------------------------------------------------


async def list_versions(call: Call) -> list[int]:
    catalogue, query = call.schemas.catalogue, call.query
    only = query.flag("deletedOnly", "deleted_only")
    as_negative = query.flag("deletedAsNegative")
    versions = catalogue.versions(
        call.subject, deleted=only or as_negative or query.flag("deleted")
    )
    if not versions:
        raise subject_not_found(call.subject)
    numbers = [
        -version.number if version.is_deleted and as_negative else version.number
        for version in versions
        if version.is_deleted or not only
    ]
    return page(numbers, query, most=VERSIONS_LISTED_MAX)


async def register(call: Call) -> RegisteredAnswer:
    """Without the schema: clients would take it for the one they sent, and keep it."""
    registered = await call.schemas.register(
        call.subject, await new_schema(call), normalize=call.query.flag("normalize")
    )
    schema, version = registered
    return RegisteredAnswer(schema.id, version.number, str(schema.guid))


async def show_version(call: Call) -> SchemaAnswer:
    return await _shown(call, _version(call))


async def show_version_text(call: Call) -> PlainText:
    return PlainText((await _shown(call, _version(call))).schema)


async def delete_version(call: Call) -> int:
    number = parse_version(call.parts[1])
    if number is None:
        number = call.schemas.catalogue.version(call.subject, None).number
    return await call.schemas.delete_version(
        call.subject, number, is_permanent=call.query.flag("permanent")
    )


async def list_referrers(call: Call) -> list[int]:
    number = parse_version(call.parts[1])
    found = call.schemas.catalogue.version(call.subject, number, deleted=True)
    referrers = call.schemas.catalogue.referrers(found.subject, found.number)
    return page(referrers, call.query, most=VERSIONS_LISTED_MAX)


def _version(call: Call) -> Version:
    return call.schemas.catalogue.version(
        call.subject, parse_version(call.parts[1]), deleted=call.query.flag("deleted")
    )


async def _shown(call: Call, version: Version) -> SchemaAnswer:
    schema = call.schemas.catalogue.schema(version.schema_id)
    text = await call.schemas.rendered(schema, call.query.text("format"))
    return schema_answer(schema, version, text=text)
