"""Schemas as the API shows them. What is empty is left out, and so is the type Avro."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from goqueue.model.schemas.contexts import qualified
from goqueue.model.schemas.formats import SchemaType
from goqueue.model.schemas.messages import Reference, StoredSchema, Version

# Of the parameter `referenceFormat`: subjects of references with their contexts in front.
QUALIFIED: Final = "qualified"


class ReferenceAnswer(msgspec.Struct, frozen=True):
    name: str
    subject: str
    version: int


class SchemaAnswer(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", kw_only=True):
    subject: str | None = None
    version: int | None = None
    id: int | None = None
    guid: str | None = None
    schema_type: str | None = None
    references: list[ReferenceAnswer] = []
    metadata: msgspec.Raw | None = None
    rule_set: msgspec.Raw | None = None
    schema: str
    max_id: int | None = None
    ts: int | None = None
    deleted: bool = False


class RegisteredAnswer(msgspec.Struct, frozen=True):
    """Old clients look at the id only."""

    id: int
    version: int
    guid: str


class VersionAnswer(msgspec.Struct, frozen=True):
    subject: str
    version: int


class PlainText(NamedTuple):
    """A schema alone, not wrapped in JSON."""

    text: str


class Allowed(NamedTuple):
    """The methods that a path takes, as the header has them."""

    methods: str


class NoContent(NamedTuple):
    """It is done, and there is nothing to say."""


class LongList(NamedTuple):
    """Items that are encoded one by one, while the client takes them."""

    items: Iterator[object]


def schema_answer(
    schema: StoredSchema,
    version: Version | None = None,
    *,
    text: str | None = None,
    qualified_references: bool = False,
) -> SchemaAnswer:
    """By version where there is one, else by id; `text` takes the place of the schema's own."""
    identity = schema.identity
    references = identity.references
    if qualified_references:
        references = tuple(
            each._replace(subject=qualified(schema.context, each.subject)) for each in references
        )
    return SchemaAnswer(
        subject=version.subject if version else None,
        version=version.number if version else None,
        id=schema.id if version else None,
        guid=str(schema.guid),
        schema_type=None if identity.type == SchemaType.AVRO else str(identity.type),
        references=reference_answers(references),
        metadata=_raw(identity.metadata),
        rule_set=_raw(identity.rule_set),
        schema=schema.text if text is None else text,
        ts=version.registered_ms if version else None,
        deleted=version.is_deleted if version else False,
    )


def reference_answers(references: tuple[Reference, ...]) -> list[ReferenceAnswer]:
    return [ReferenceAnswer(*reference) for reference in references]


def _raw(stored: bytes) -> msgspec.Raw | None:
    return msgspec.Raw(stored) if stored else None
