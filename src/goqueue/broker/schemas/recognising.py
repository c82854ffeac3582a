"""Whether a schema that a client sends is one that is registered."""

from typing import NamedTuple

from goqueue.broker.schemas.parsing import SchemaParser
from goqueue.broker.schemas.references import resolve, source_of
from goqueue.model.schemas.contexts import DEFAULT_CONTEXT, context_of, qualified
from goqueue.model.schemas.errors import RefusalKind, RegistryRefusal, invalid_schema
from goqueue.model.schemas.formats import SchemaSource, SchemaType
from goqueue.model.schemas.messages import (
    NewSchema,
    Reference,
    SchemaIdentity,
    Version,
    schema_size_bytes,
)
from goqueue.state.schemas.catalogue import Catalogue


class KnownSchema(NamedTuple):
    """A schema that has been parsed; the text is the one to be stored."""

    source: SchemaSource
    identity: SchemaIdentity
    normalize: bool


class Recogniser:
    def __init__(self, parser: SchemaParser, *, schema_max_bytes: int) -> None:
        self._parser = parser
        self._schema_max_bytes = schema_max_bytes

    async def parse(
        self, catalogue: Catalogue, subject: str, new: NewSchema, *, normalize: bool
    ) -> KnownSchema:
        self._check_size(new)
        normalize = normalize or catalogue.normalizes(subject)
        context = context_of(subject)
        references = tuple(_numbered(catalogue, context, each) for each in new.references)
        if normalize:
            references = tuple(sorted(set(references)))
        source = SchemaSource(new.type, new.text, resolve(catalogue, context, references))
        parsed = await self._parser.parse(source, normalize=normalize, asker=new.asker)
        identity = SchemaIdentity(
            new.type, parsed.fingerprint, references, new.metadata, new.rule_set
        )
        return KnownSchema(source._replace(text=parsed.canonical), identity, normalize)

    def _check_size(self, new: NewSchema) -> None:
        if not new.text.strip():
            raise RegistryRefusal(RefusalKind.INVALID_SCHEMA, "Empty schema")
        size_bytes = schema_size_bytes(new.text, new.references, new.metadata, new.rule_set)
        if size_bytes > self._schema_max_bytes:
            raise RegistryRefusal(
                RefusalKind.SCHEMA_TOO_LARGE,
                f"schema: it has {size_bytes} bytes, schema.max.bytes is "
                f"{self._schema_max_bytes}; split it into several with references",
            )

    async def find(
        self, catalogue: Catalogue, subject: str, known: KnownSchema, *, deleted: bool = False
    ) -> Version | None:
        """The version of the subject that has this schema."""
        identity = known.identity
        found = catalogue.find(subject, identity, deleted=deleted)
        if found is None and identity.type == SchemaType.AVRO and not identity.references:
            found = await self._find_resolved(catalogue, subject, known, deleted=deleted)
        if found is None:
            identity = inherited(catalogue, subject, identity)
            found = catalogue.find(subject, identity, deleted=deleted)
        return found

    async def _find_resolved(
        self, catalogue: Catalogue, subject: str, known: KnownSchema, *, deleted: bool
    ) -> Version | None:
        """Avro's serialisers know types, not references: they send the schema as a whole."""
        for version in reversed(catalogue.versions(subject, deleted=deleted)):
            schema = catalogue.schemas.get(version.context_id)
            if schema is None or not _may_be_whole(known.identity, schema.identity):
                continue
            try:
                source = source_of(catalogue, schema)
            except RegistryRefusal:
                continue  # a deleted one, and what it refers to is gone
            whole = SchemaSource(SchemaType.AVRO, await self._parser.describe(source))
            parsed = await self._parser.parse(whole, normalize=known.normalize)
            if parsed.fingerprint == known.identity.fingerprint:
                return version
        return None


def inherited(catalogue: Catalogue, subject: str, identity: SchemaIdentity) -> SchemaIdentity:
    """With the metadata and rules of the latest version, where it has none of its own."""
    latest = catalogue.latest(subject)
    if latest is None:
        return identity
    older = catalogue.schema(latest.context_id).identity
    return identity._replace(
        metadata=identity.metadata or older.metadata, rule_set=identity.rule_set or older.rule_set
    )


def _may_be_whole(whole: SchemaIdentity, other: SchemaIdentity) -> bool:
    return bool(other.references) and other == whole._replace(
        fingerprint=other.fingerprint, references=other.references
    )


def _numbered(catalogue: Catalogue, context: str, reference: Reference) -> Reference:
    """As it is stored: with a version, and without the default context in front, where the schema
    is in that one. Otherwise the subject stays as it was sent; clients see it again.
    """
    subject = qualified(context, reference.subject)
    if context == DEFAULT_CONTEXT:
        reference = reference._replace(subject=subject)
    if reference.version >= 1:
        return reference
    latest = catalogue.latest(subject)
    if latest is None:
        raise invalid_schema(
            f"references: {reference.name!r} is to be the latest version of subject "
            f"{subject!r}, which has none; register it first"
        )
    return reference._replace(version=latest.number)
