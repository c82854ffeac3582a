"""What is registered, as it is looked up. Only replay changes it."""

from collections.abc import Hashable, Iterable, Iterator
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

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

_NO_VERSIONS: Final[dict[int, Version]] = {}


class VersionKey(NamedTuple):
    subject: str
    number: int


class Catalogue:
    def __init__(self) -> None:
        self.schemas: dict[int, StoredSchema] = {}
        self.configs: dict[str | None, SubjectConfig] = {}
        self.modes: dict[str | None, Mode] = {}
        self.highest_id = 0
        self._subjects: dict[str, dict[int, Version]] = {}
        # Imported schemas may have several ids for the same thing.
        self._ids: dict[SchemaIdentity, set[int]] = {}
        self._ids_by_guid: dict[UUID, set[int]] = {}
        self._uses: dict[int, set[VersionKey]] = {}
        self._referrers: dict[VersionKey, set[int]] = {}

    # --- changes, by replay ---------------------------------------------------------------

    def put_schema(self, schema: StoredSchema) -> None:
        self.drop_schema(schema.id)
        self.schemas[schema.id] = schema
        self.highest_id = max(self.highest_id, schema.id)
        self._ids.setdefault(schema.identity, set()).add(schema.id)
        self._ids_by_guid.setdefault(schema.guid, set()).add(schema.id)
        for reference in schema.identity.references:
            key = VersionKey(reference.subject, reference.version)
            self._referrers.setdefault(key, set()).add(schema.id)

    def drop_schema(self, schema_id: int) -> None:
        schema = self.schemas.pop(schema_id, None)
        if schema is None:
            return
        _discard(self._ids, schema.identity, schema_id)
        _discard(self._ids_by_guid, schema.guid, schema_id)
        for reference in schema.identity.references:
            _discard(self._referrers, VersionKey(reference.subject, reference.version), schema_id)

    def put_version(self, version: Version) -> None:
        self.drop_version(version.subject, version.number)
        self._subjects.setdefault(version.subject, {})[version.number] = version
        key = VersionKey(version.subject, version.number)
        self._uses.setdefault(version.schema_id, set()).add(key)

    def drop_version(self, subject: str, number: int) -> None:
        version = self._subjects.get(subject, _NO_VERSIONS).pop(number, None)
        if version is None:
            return
        if not self._subjects[subject]:
            del self._subjects[subject]
        _discard(self._uses, version.schema_id, VersionKey(subject, number))

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
        ids = self._ids.get(identity, ())
        own = self._subjects.get(subject, _NO_VERSIONS).values()
        wanted = (v for v in own if v.schema_id in ids and (deleted or not v.is_deleted))
        return max(wanted, key=lambda v: v.number, default=None)

    def all_versions(self) -> Iterator[Version]:
        """Of all subjects, deleted ones too, in no order."""
        return (version for own in self._subjects.values() for version in own.values())

    # --- schemas --------------------------------------------------------------------------

    def schema(self, schema_id: int) -> StoredSchema:
        schema = self.schemas.get(schema_id)
        if schema is None:
            raise schema_not_found(schema_id)
        return schema

    def schema_by_guid(self, guid: UUID) -> StoredSchema:
        if guid not in self._ids_by_guid:
            raise schema_not_found(str(guid))
        return self.schemas[min(self._ids_by_guid[guid])]

    def find_guid(self, guid: UUID) -> int | None:
        return min(self._ids_by_guid.get(guid, ()), default=None)

    def id_of(self, identity: SchemaIdentity) -> int | None:
        return min(self._ids.get(identity, ()), default=None)

    def uses(self, schema_id: int, *, deleted: bool = False) -> list[Version]:
        """The versions that have this schema, by subject and number."""
        keys = sorted(self._uses.get(schema_id, ()))
        versions = (self._subjects[subject][number] for subject, number in keys)
        return [version for version in versions if deleted or not version.is_deleted]

    def referrers(self, subject: str, number: int) -> list[int]:
        """Ids of the schemas in use that refer to this version."""
        found: Iterable[int] = self._referrers.get(VersionKey(subject, number), ())
        return sorted(schema_id for schema_id in found if self.uses(schema_id))

    # --- settings -------------------------------------------------------------------------

    def mode_of(self, subject: str | None) -> Mode:
        """What counts there. READONLY_OVERRIDE for all beats what subjects have set."""
        for_all = self.modes.get(None, DEFAULT_MODE)
        return for_all if for_all is Mode.READONLY_OVERRIDE else self.modes.get(subject, for_all)

    def compatibility_of(self, subject: str | None) -> CompatibilityLevel:
        return self._own(subject).compatibility or (
            self._own(None).compatibility or DEFAULT_COMPATIBILITY
        )

    def compatibility_group_of(self, subject: str) -> str | None:
        return self._own(subject).compatibility_group or self._own(None).compatibility_group

    def normalizes(self, subject: str) -> bool:
        own = self._own(subject).normalize
        return bool(self._own(None).normalize) if own is None else own

    def resolve_alias(self, subject: str) -> str:
        """Where requests for the subject go; an alias of an alias is not followed."""
        return self._own(subject).alias or subject

    def _own(self, subject: str | None) -> SubjectConfig:
        return self.configs.get(subject) or _NOTHING_SET


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
