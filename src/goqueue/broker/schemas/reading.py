"""Looking at what is registered: subjects and their versions, schemas by id, settings."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final
from uuid import UUID

from goqueue.broker.schemas.catalogues import Catalogues
from goqueue.broker.schemas.compatibility import property_of
from goqueue.broker.schemas.parsing import SchemaParser
from goqueue.broker.schemas.references import source_of
from goqueue.model.measuring.figures import SubjectCounts
from goqueue.model.rights import (
    DescribableCluster,
    ReadableScope,
    ReadableSubject,
    ReadableSubjects,
)
from goqueue.model.schemas.contexts import (
    ALL_CONTEXTS,
    DEFAULT_CONTEXT,
    GLOBAL_SCOPE,
    ContextId,
    context_of,
    parse_subject,
    scope_of,
)
from goqueue.model.schemas.errors import (
    config_not_set,
    mode_not_set,
    schema_not_found,
    subject_not_found,
)
from goqueue.model.schemas.formats import SchemaType
from goqueue.model.schemas.messages import (
    Mode,
    Registered,
    RegistryFigures,
    ShownSchema,
    ShownVersion,
    StoredSchema,
    SubjectConfig,
    Version,
)
from goqueue.state.schemas.catalogue import Catalogue

# What clients may ask for by `format`: what Python's Protobuf deserialiser wants, and an Avro
# schema with all that it refers to put in its place. Other words are passed over.
FORMATS: Final = {SchemaType.PROTOBUF: "serialized", SchemaType.AVRO: "resolved"}


class SchemaReading:
    """A schema is readable to whoever may read one of the subjects that have it."""

    def __init__(self, catalogues: Catalogues, parser: SchemaParser) -> None:
        self._shown = catalogues.shown
        self._parser = parser

    async def unaliased(self, subject: str) -> str:
        """The subject that requests for this one are about: itself, or what it is an alias of."""
        async with self._shown() as catalogue:
            return catalogue.resolve_alias(subject)

    async def same_elsewhere(self, subject: ReadableSubject) -> list[str]:
        """The subjects of this name in other contexts, if it is in the default one."""
        async with self._shown() as catalogue:
            return list(catalogue.same_elsewhere(subject))

    # --- subjects -------------------------------------------------------------------------

    async def subjects(
        self, readable: ReadableSubjects, prefix: str, *, deleted: bool, deleted_only: bool
    ) -> list[str]:
        """By name; `deleted` adds those whose versions are all deleted.

        A prefix that begins with no context is of the default one; `:*:` stands for all.
        """
        async with self._shown() as catalogue:
            found = set(catalogue.subjects(deleted=deleted or deleted_only))
            if deleted_only:
                found -= set(catalogue.subjects())
            return _wanted(found, prefix, readable)

    async def contexts(self, readable: ReadableSubjects) -> list[str]:
        """The default one, and those of which the caller may read something."""
        async with self._shown() as catalogue:
            contexts = catalogue.contexts()
            found = {each for each in contexts if scope_of(each) in readable} | {DEFAULT_CONTEXT}
            if len(found) < len(contexts):
                names = catalogue.subjects(deleted=True)
                found |= {context_of(name) for name in names if name in readable}
            return sorted(found)

    async def versions(self, subject: ReadableSubject, *, deleted: bool) -> list[Version]:
        """In ascending order; raises if there is none."""
        async with self._shown() as catalogue:
            return _versions(catalogue, subject, deleted=deleted)

    async def version(
        self,
        subject: ReadableSubject,
        number: int | None,
        *,
        deleted: bool,
        text_format: str | None,
    ) -> ShownVersion:
        """With None as number, the latest."""
        async with self._shown() as catalogue:
            found = catalogue.version(subject, number, deleted=deleted)
            return await self.rendered(catalogue, found, text_format)

    async def latest_with_metadata(
        self,
        subject: ReadableSubject,
        wanted: Sequence[tuple[str, str]],
        *,
        deleted: bool,
        text_format: str | None,
    ) -> ShownVersion:
        """The newest version whose metadata has all the given properties."""
        async with self._shown() as catalogue:
            for version in reversed(_versions(catalogue, subject, deleted=deleted)):
                metadata = catalogue.schema(version.context_id).identity.metadata
                if all(property_of(metadata, key) == value for key, value in wanted):
                    return await self.rendered(catalogue, version, text_format)
            raise schema_not_found()

    async def referrers(
        self, subject: ReadableSubject, number: int | None, readable: ReadableSubjects
    ) -> list[int]:
        """Ids of readable schemas in use that refer to a version, of whichever context."""
        async with self._shown() as catalogue:
            found = catalogue.version(subject, number, deleted=True)
            referrers = catalogue.referrers(found.subject, found.number)
            return sorted(each.id for each in referrers if _is_readable(catalogue, each, readable))

    # --- schemas --------------------------------------------------------------------------

    async def schemas(
        self,
        readable: ReadableSubjects,
        prefix: str,
        page: tuple[int, int],
        *,
        deleted: bool,
        latest_only: bool,
    ) -> list[Registered]:
        """By subject and version, from the first to the last position of the page."""
        async with self._shown() as catalogue:
            names = _wanted(catalogue.subjects(deleted=deleted), prefix, readable)
            found = (
                Registered(catalogue.schema(version.context_id), version)
                for name in names
                for version in catalogue.versions(name, deleted=deleted)[-1 if latest_only else 0 :]
            )
            return list(islice(found, *page))

    async def schema(
        self, readable: ReadableSubjects, schema_id: int, subject: str, *, text_format: str | None
    ) -> ShownSchema:
        """With the version that the named subject has of it, deleted or not.

        The subject says in which context the id is; it may be one without a name.
        """
        async with self._shown() as catalogue:
            schema = _find(catalogue, schema_id, subject, readable)
            uses = _uses(catalogue, schema.context_id, readable, deleted=True)
            name = parse_subject(subject).subject
            same = (
                each for each in reversed(list(uses)) if parse_subject(each.subject).subject == name
            )
            highest_id = catalogue.highest_id(schema.context)
            text = await self._text(catalogue, schema, text_format)
            return ShownSchema(schema, text, next(same, None), highest_id)

    async def uses(
        self, readable: ReadableSubjects, schema_id: int, subject: str, *, deleted: bool
    ) -> list[Version]:
        """The versions that have this schema, by subject and number."""
        async with self._shown() as catalogue:
            schema = _find(catalogue, schema_id, subject, readable)
            return list(_uses(catalogue, schema.context_id, readable, deleted=deleted))

    async def schema_by_guid(
        self, readable: ReadableSubjects, guid: UUID, *, text_format: str | None
    ) -> ShownSchema:
        async with self._shown() as catalogue:
            schema = catalogue.schema(_ids_of_guid(catalogue, guid, readable)[0])
            text = await self._text(catalogue, schema, text_format)
            return ShownSchema(schema, text, None, catalogue.highest_id(schema.context))

    async def ids_of_guid(self, readable: ReadableSubjects, guid: UUID) -> list[ContextId]:
        """Where the schema is registered; raises if the caller may read it nowhere."""
        async with self._shown() as catalogue:
            return _ids_of_guid(catalogue, guid, readable)

    async def figures(self, _cluster: DescribableCluster) -> RegistryFigures:
        async with self._shown() as catalogue:
            return _figures(catalogue)

    async def rendered(
        self, catalogue: Catalogue, version: Version, text_format: str | None
    ) -> ShownVersion:
        """With the schema's text, in another format if clients ask for one there is."""
        schema = catalogue.schema(version.context_id)
        return ShownVersion(schema, await self._text(catalogue, schema, text_format), version)

    async def _text(
        self, catalogue: Catalogue, schema: StoredSchema, text_format: str | None
    ) -> str:
        if not text_format or text_format != FORMATS.get(SchemaType(schema.identity.type)):
            return schema.text
        return await self._parser.describe(source_of(catalogue, schema))

    # --- settings -------------------------------------------------------------------------

    async def config(self, scope: ReadableScope, *, default_to_global: bool) -> SubjectConfig:
        """What is set there; with `default_to_global`, what counts there."""
        async with self._shown() as catalogue:
            is_set = scope.subject in catalogue.configs
            is_effective = default_to_global or scope.subject in (None, GLOBAL_SCOPE)
            if not is_set and not is_effective:
                raise config_not_set(scope.subject or "")
            own = catalogue.nearest_config(scope.subject)
            if is_effective:
                return own.with_compatibility(catalogue.compatibility_of(scope.subject))
            return own

    async def mode(self, scope: ReadableScope, *, default_to_global: bool) -> Mode:
        async with self._shown() as catalogue:
            mode = catalogue.mode_of(scope.subject)
            is_effective = default_to_global or scope.subject in (None, GLOBAL_SCOPE)
            if is_effective or mode is Mode.READONLY_OVERRIDE or scope.subject in catalogue.modes:
                return mode
            raise mode_not_set(scope.subject or "")


def subject_counts(catalogue: Catalogue) -> SubjectCounts:
    in_use = sum(1 for _ in catalogue.subjects())
    known = sum(1 for _ in catalogue.subjects(deleted=True))
    return SubjectCounts(in_use, known - in_use)


def type_counts(catalogue: Catalogue) -> dict[SchemaType, int]:
    """How many schemas of each type there are."""
    found = Counter(schema.identity.type for schema in catalogue.schemas.values())
    return {each: found[each] for each in SchemaType}


def _figures(catalogue: Catalogue) -> RegistryFigures:
    versions = Counter(version.is_deleted for version in catalogue.all_versions())
    return RegistryFigures(
        contexts=len(catalogue.contexts()),
        subjects=subject_counts(catalogue).in_use,
        versions=versions[False],
        deleted_versions=versions[True],
        highest_id=catalogue.highest_id(DEFAULT_CONTEXT),
        types=type_counts(catalogue),
        compatibility=catalogue.compatibility_of(None),
        mode=catalogue.mode_of(None),
    )


def _wanted(names: Iterable[str], prefix: str, readable: ReadableSubjects) -> list[str]:
    is_wanted = _matching(prefix)
    return sorted(name for name in names if is_wanted(name) and name in readable)


def _matching(prefix: str) -> Callable[[str], bool]:
    if prefix.startswith(ALL_CONTEXTS):
        rest = prefix.removeprefix(ALL_CONTEXTS)
        return lambda name: parse_subject(name).subject.startswith(rest)
    context, rest = parse_subject(prefix)
    if context == DEFAULT_CONTEXT:
        return lambda name: context_of(name) == DEFAULT_CONTEXT and name.startswith(rest)
    return lambda name: name.startswith(prefix)


def _find(
    catalogue: Catalogue, schema_id: int, subject: str, readable: ReadableSubjects
) -> StoredSchema:
    """The schema with this id in the subject's context. If the subject is in the default one and
    has it not, the schema with this id that a subject of the same name has in another: readers
    that know no contexts name the subject as they know it.

    One that is not readable is not found either: ids are easily guessed.
    """
    own = ContextId(context_of(subject), schema_id)
    candidates = [own]
    if not any(use.subject == subject for use in catalogue.uses(own, deleted=True)):
        others = (
            use.context_id
            for other in catalogue.same_elsewhere(subject)
            for use in catalogue.versions(other, deleted=True)
            if use.schema_id == schema_id
        )
        candidates = [*others, own]
    for each in candidates:
        if each in catalogue.schemas and _is_readable(catalogue, each, readable):
            return catalogue.schema(each)
    raise schema_not_found(schema_id)


def _versions(catalogue: Catalogue, subject: str, *, deleted: bool) -> list[Version]:
    versions = catalogue.versions(subject, deleted=deleted)
    if not versions:
        raise subject_not_found(subject)
    return versions


def _ids_of_guid(catalogue: Catalogue, guid: UUID, readable: ReadableSubjects) -> list[ContextId]:
    found = catalogue.ids_of_guid(guid)
    ids = [each for each in found if _is_readable(catalogue, each, readable)]
    if not ids:
        raise schema_not_found(str(guid))
    return ids


def _is_readable(catalogue: Catalogue, context_id: ContextId, readable: ReadableSubjects) -> bool:
    return any(_uses(catalogue, context_id, readable, deleted=True))


def _uses(
    catalogue: Catalogue, context_id: ContextId, readable: ReadableSubjects, *, deleted: bool
) -> Iterator[Version]:
    uses = catalogue.uses(context_id, deleted=deleted)
    return (version for version in uses if version.subject in readable)
