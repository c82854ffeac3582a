"""What is registered, as it is looked up. Only replay changes it."""

from collections.abc import Hashable, Iterable, Iterator
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from goqueue.model.fairness.amounts import Amounts
from goqueue.model.schemas.contexts import (
    DEFAULT_CONTEXT,
    GLOBAL_SCOPE,
    ContextId,
    context_of,
    qualified,
    scope_of,
)
from goqueue.model.schemas.errors import (
    schema_not_found,
    subject_not_found,
    version_not_found,
)
from goqueue.model.schemas.messages import (
    CompatibilityLevel,
    Mode,
    SchemaIdentity,
    StoredSchema,
    SubjectConfig,
    Version,
)

# As in Confluent's registry.
DEFAULT_COMPATIBILITY: Final = CompatibilityLevel.BACKWARD
DEFAULT_MODE: Final = Mode.READWRITE

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")

# What an entry takes beside its texts: objects, and its places in tables and sets.
_SCHEMA_BYTES: Final = 1_000
_VERSION_BYTES: Final = 500
_SETTING_BYTES: Final = 300

_NO_VERSIONS: Final[dict[int, Version]] = {}


class VersionKey(NamedTuple):
    subject: str
    number: int


class Catalogue:
    def __init__(self) -> None:
        # Of all that is registered and set.
        self.held_bytes = Amounts()
        self.schemas: dict[ContextId, StoredSchema] = {}
        # By subject, by a context between colons, or by None for the default context.
        self.configs: dict[str | None, SubjectConfig] = {}
        self.modes: dict[str | None, Mode] = {}
        self._highest_ids = {DEFAULT_CONTEXT: 0}
        self._subjects: dict[str, dict[int, Version]] = {}
        # Imported schemas may have several ids for the same thing.
        self._ids: dict[tuple[str, SchemaIdentity], set[int]] = {}
        self._ids_by_guid: dict[UUID, set[ContextId]] = {}
        self._uses: dict[ContextId, set[VersionKey]] = {}
        self._referrers: dict[VersionKey, set[ContextId]] = {}

    # --- changes, by replay ---------------------------------------------------------------

    def put_schema(self, schema: StoredSchema) -> None:
        context_id = schema.context_id
        self.drop_schema(context_id)
        self.schemas[context_id] = schema
        self._grow(schema.context, size_of_schema(schema))
        self.raise_highest_id(schema.context, schema.id)
        self._ids.setdefault((schema.context, schema.identity), set()).add(schema.id)
        self._ids_by_guid.setdefault(schema.guid, set()).add(context_id)
        for key in _referred_to(schema):
            self._referrers.setdefault(key, set()).add(context_id)

    def drop_schema(self, context_id: ContextId) -> None:
        schema = self.schemas.pop(context_id, None)
        if schema is None:
            return
        self._grow(schema.context, -size_of_schema(schema))
        _discard(self._ids, (schema.context, schema.identity), schema.id)
        _discard(self._ids_by_guid, schema.guid, context_id)
        for key in _referred_to(schema):
            _discard(self._referrers, key, context_id)

    def raise_highest_id(self, context: str, highest_id: int) -> None:
        """From here on the context is there, and gives no id up to this one."""
        self._highest_ids[context] = max(self._highest_ids.get(context, 0), highest_id)

    def drop_context(self, context: str) -> None:
        self._highest_ids.pop(context, None)

    def put_version(self, version: Version) -> None:
        self.drop_version(version.subject, version.number)
        self._subjects.setdefault(version.subject, {})[version.number] = version
        self._grow(version.context_id.context, size_of_version(version))
        key = VersionKey(version.subject, version.number)
        self._uses.setdefault(version.context_id, set()).add(key)

    def drop_version(self, subject: str, number: int) -> None:
        version = self._subjects.get(subject, _NO_VERSIONS).pop(number, None)
        if version is None:
            return
        self._grow(version.context_id.context, -size_of_version(version))
        if not self._subjects[subject]:
            del self._subjects[subject]
        _discard(self._uses, version.context_id, VersionKey(subject, number))

    def put_config(self, scope: str | None, config: SubjectConfig | None) -> None:
        old = self.configs.pop(scope, None)
        growth_bytes = size_of_config(scope, config) - size_of_config(scope, old)
        self._grow(context_of_scope(scope), growth_bytes)
        if config is not None:
            self.configs[scope] = config

    def put_mode(self, scope: str | None, mode: Mode | None) -> None:
        old = self.modes.pop(scope, None)
        growth_bytes = size_of_mode(scope, mode) - size_of_mode(scope, old)
        self._grow(context_of_scope(scope), growth_bytes)
        if mode is not None:
            self.modes[scope] = mode

    def _grow(self, context: str, growth_bytes: int) -> None:
        self.held_bytes.add(owned_name(context), growth_bytes)

    # --- contexts -------------------------------------------------------------------------

    def contexts(self) -> list[str]:
        """By name, the default one first."""
        return sorted(self._highest_ids)

    def has_context(self, context: str) -> bool:
        return context in self._highest_ids

    def highest_id(self, context: str) -> int:
        return self._highest_ids.get(context, 0)

    def same_elsewhere(self, subject: str) -> Iterator[str]:
        """The subjects of this name in other contexts, if it is in the default one: clients that
        know no contexts find what is registered in one.
        """
        if context_of(subject) != DEFAULT_CONTEXT:
            return
        for context in self.contexts()[1:]:
            name = scope_of(context) + subject
            if name in self._subjects:
                yield name

    # --- subjects and versions ------------------------------------------------------------

    def subjects(self, *, deleted: bool = False) -> Iterator[str]:
        """Names in no order; `deleted` adds those whose versions are all deleted."""
        for name, versions in self._subjects.items():
            if deleted or any(not v.is_deleted for v in versions.values()):
                yield name

    def has_subject(self, subject: str, *, deleted: bool = False) -> bool:
        return bool(self.versions(subject, deleted=deleted))

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """In ascending order."""
        found = self._subjects.get(subject, _NO_VERSIONS)
        return [found[n] for n in sorted(found) if deleted or not found[n].is_deleted]

    def latest(self, subject: str) -> Version | None:
        found = self._subjects.get(subject, _NO_VERSIONS).values()
        return max((v for v in found if not v.is_deleted), key=lambda v: v.number, default=None)

    def version(self, subject: str, number: int | None, *, deleted: bool = False) -> Version:
        """That version, the latest one with None; raises `RegistryRefusal` if it is not there."""
        if number is None:
            found = self.latest(subject)
        else:
            found = self._subjects.get(subject, _NO_VERSIONS).get(number)
        if found is None or (found.is_deleted and not deleted):
            if not self.has_subject(subject, deleted=deleted):
                raise subject_not_found(subject)
            raise version_not_found(-1 if number is None else number)
        return found

    def next_version(self, subject: str) -> int:
        return max(self._subjects.get(subject, _NO_VERSIONS), default=0) + 1

    def find(
        self, subject: str, identity: SchemaIdentity, *, deleted: bool = False
    ) -> Version | None:
        """The newest version of the subject that has this schema."""
        ids = self._ids.get((context_of(subject), identity), ())
        own = self._subjects.get(subject, _NO_VERSIONS).values()
        wanted = (v for v in own if v.schema_id in ids and (deleted or not v.is_deleted))
        return max(wanted, key=lambda v: v.number, default=None)

    def all_versions(self) -> Iterator[Version]:
        """Of all subjects, deleted ones too, in no order."""
        return (version for own in self._subjects.values() for version in own.values())

    # --- schemas --------------------------------------------------------------------------

    def schema(self, context_id: ContextId) -> StoredSchema:
        schema = self.schemas.get(context_id)
        if schema is None:
            raise schema_not_found(context_id.id)
        return schema

    def ids_of_guid(self, guid: UUID) -> list[ContextId]:
        """The default context's first."""
        return sorted(self._ids_by_guid.get(guid, ()))

    def id_of(self, context: str, identity: SchemaIdentity) -> int | None:
        return min(self._ids.get((context, identity), ()), default=None)

    def uses(self, context_id: ContextId, *, deleted: bool = False) -> list[Version]:
        """The versions that have this schema, by subject and number."""
        keys = sorted(self._uses.get(context_id, ()))
        versions = (self._subjects[subject][number] for subject, number in keys)
        return [version for version in versions if deleted or not version.is_deleted]

    def referrers(self, subject: str, number: int) -> list[ContextId]:
        """The schemas in use that refer to this version."""
        found: Iterable[ContextId] = self._referrers.get(VersionKey(subject, number), ())
        return sorted(context_id for context_id in found if self.uses(context_id))

    # --- settings -------------------------------------------------------------------------

    def mode_of(self, scope: str | None) -> Mode:
        """What counts there. READONLY_OVERRIDE beats what is set in a narrower scope; that of the
        default context counts for all, as in Confluent's registry.
        """
        scopes = list(_scopes(scope))
        if any(self.modes.get(each) is Mode.READONLY_OVERRIDE for each in (None, *scopes)):
            return Mode.READONLY_OVERRIDE
        return next((self.modes[each] for each in scopes if each in self.modes), DEFAULT_MODE)

    def compatibility_of(self, scope: str | None) -> CompatibilityLevel:
        levels = (config.compatibility for config in self._in_scope(scope))
        return next(filter(None, levels), DEFAULT_COMPATIBILITY)

    def compatibility_group_of(self, subject: str) -> str | None:
        groups = (config.compatibility_group for config in self._in_scope(subject))
        return next(filter(None, groups), None)

    def normalizes(self, subject: str) -> bool:
        answers = (config.normalize for config in self._in_scope(subject))
        return next((answer for answer in answers if answer is not None), False)

    def resolve_alias(self, subject: str) -> str:
        """Where requests for the subject go; an alias of an alias is not followed."""
        alias = self.configs.get(subject, _NOTHING_SET).alias
        return qualified(context_of(subject), alias) if alias else subject

    def nearest_config(self, scope: str | None) -> SubjectConfig:
        """What is set there, or in the next wider scope where anything is."""
        return next(self._in_scope(scope), _NOTHING_SET)

    def _in_scope(self, scope: str | None) -> Iterator[SubjectConfig]:
        return (self.configs[each] for each in _scopes(scope) if each in self.configs)


def owned_name(context: str) -> str:
    """A tenant's contexts begin with a dot and its name."""
    return context.removeprefix(DEFAULT_CONTEXT)


def context_of_scope(scope: str | None) -> str:
    return DEFAULT_CONTEXT if scope is None else context_of(scope)


def size_of_schema(schema: StoredSchema) -> int:
    return _SCHEMA_BYTES + schema.size_bytes


def size_of_version(version: Version) -> int:
    return _VERSION_BYTES + len(version.subject.encode())


def size_of_config(scope: str | None, config: SubjectConfig | None) -> int:
    if config is None:
        return 0
    texts = (scope, config.alias, config.compatibility_group)
    return _SETTING_BYTES + sum(len(text.encode()) for text in texts if text)


def size_of_mode(scope: str | None, mode: Mode | None) -> int:
    return 0 if mode is None else _SETTING_BYTES + len((scope or "").encode())


def _scopes(scope: str | None) -> Iterator[str | None]:
    """Where a setting may come from: a subject, then its context, then what counts for all."""
    if scope is not None:
        yield scope
    context = scope_of(context_of_scope(scope)) or None
    if context != scope or scope is None:
        yield context
    if context != GLOBAL_SCOPE:
        yield GLOBAL_SCOPE


def _referred_to(schema: StoredSchema) -> Iterator[VersionKey]:
    for _, subject, number in schema.identity.references:
        yield VersionKey(qualified(schema.context, subject), number)


_NOTHING_SET: Final = SubjectConfig()


def _discard(sets: dict[Key, set[Item]], key: Key, item: Item) -> None:
    """Take an item out of one of many sets; an empty one goes.

    The same reference may stand twice in a schema, so that the set is gone already.
    """
    found = sets.get(key)
    if found is not None:
        found.discard(item)
        if not found:
            del sets[key]
