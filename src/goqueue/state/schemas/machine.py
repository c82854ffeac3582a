"""The registry's commands: each decides on what is registered, and returns records to append."""

from collections.abc import Callable, Collection
from functools import wraps
from typing import Final, TypeVar

import msgspec

from goqueue.model.fairness.amounts import Amounts, room_for
from goqueue.model.fairness.shares import Shares
from goqueue.model.schemas.contexts import (
    DEFAULT_CONTEXT,
    GLOBAL_SCOPE,
    ContextId,
    context_of,
    parse_subject,
    qualified,
    scope_of,
)
from goqueue.model.schemas.errors import (
    RefusalKind,
    RegistryRefusal,
    context_not_found,
    invalid_schema,
    not_permitted,
    subject_not_found,
)
from goqueue.model.schemas.messages import (
    DeleteContext,
    DeleteSubject,
    DeleteVersion,
    Mode,
    Register,
    Registered,
    SetConfig,
    SetMode,
    StoredSchema,
    SubjectConfig,
    Version,
)
from goqueue.state.machine import Outcome, StateRecord, Ticket, UntimedMethod
from goqueue.state.schemas import records
from goqueue.state.schemas.catalogue import (
    Catalogue,
    context_of_scope,
    owned_name,
    size_of_config,
    size_of_mode,
    size_of_schema,
    size_of_version,
)

# Confluent's prefix of messages has four bytes for an id, and its clients read them as signed.
SCHEMA_ID_MAX: Final = 2**31 - 1

Request = TypeVar("Request")
Answer = TypeVar("Answer")


def _decision(
    decide: Callable[["SchemaMachine", Outcome, Request], Answer],
) -> UntimedMethod["SchemaMachine", Request, Answer | RegistryRefusal]:
    """A command: what `decide` returns or raises is the answer, sent after the records."""

    @wraps(decide)
    def command(
        machine: "SchemaMachine", request: Request, /, *, ticket: Ticket[Answer | RegistryRefusal]
    ) -> Outcome:
        outcome = Outcome()
        try:
            answer: Answer | RegistryRefusal = decide(machine, outcome, request)
        except RegistryRefusal as refusal:
            outcome, answer = Outcome(), refusal
        outcome.reply(ticket, answer)
        return outcome

    return command


class SchemaMachine:
    def __init__(
        self,
        *,
        contexts_max: int,
        size_max_bytes: int,
        tenants: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self.catalogue = Catalogue()
        self._contexts_max = contexts_max
        self._size_max_bytes = size_max_bytes
        self._tenants = tenants

    # --- registering ----------------------------------------------------------------------

    @_decision
    def register(self, outcome: Outcome, request: Register) -> Registered:
        """Compatibility has been looked at before; everything else is decided here."""
        catalogue = self.catalogue
        found = self._registered(request)
        if found is not None:
            return Registered(catalogue.schema(found.context_id), found)
        self._check_mode(request)
        context = context_of(request.subject)
        self._check_room_for(context)
        for reference in request.identity.references:
            self._check_reference(qualified(context, reference.subject), reference.version)
        number = self._number_for(request)
        schema = self._schema_for(request)
        version = Version(request.subject, number, schema.id, False, request.now_ms)
        growth_bytes = size_of_version(version)
        for older in catalogue.versions(request.subject, deleted=True):
            if not older.is_deleted:
                continue
            if older.schema_id == schema.id and older.number < number:
                # Registered again after a soft delete: the new version takes that one's place.
                outcome.records.append(records.version_tombstone(older))
                growth_bytes -= size_of_version(older)
            elif older.schema_id != schema.id and older.number == number:
                self._forget(outcome, [older])
        if not catalogue.has_context(context):
            outcome.records.append(records.ids_record(context, schema.id))
        if catalogue.schemas.get(schema.context_id) != schema:
            outcome.records.append(records.schema_record(schema))
            growth_bytes += size_of_schema(schema)
        self._check_growth("schema", request.subject, growth_bytes)
        outcome.records.append(records.version_record(version))
        return Registered(schema, version)

    def _registered(self, request: Register) -> Version | None:
        """The version that answers the request; who imports wants the id and version given."""
        if request.schema_id is None:
            return self.catalogue.find(request.subject, request.identity)
        for version in reversed(self.catalogue.versions(request.subject)):
            schema = self.catalogue.schema(version.context_id)
            if (schema.id, schema.identity) == (request.schema_id, request.identity) and (
                request.version in (None, version.number)
            ):
                return version
        return None

    def _check_mode(self, request: Register) -> None:
        subject, mode = request.subject, self.catalogue.mode_of(request.subject)
        if mode.is_read_only:
            raise not_permitted(f"Subject {subject} is in read-only mode")
        is_import = request.schema_id is not None
        if is_import and mode is not Mode.IMPORT:
            raise not_permitted(f"Subject {subject} is not in import mode")
        if not is_import and mode is Mode.IMPORT:
            raise not_permitted(f"Subject {subject} is not in read-write mode")

    def _check_room_for(self, context: str) -> None:
        if self.catalogue.has_context(context):
            return
        contexts = Amounts()
        for each in self.catalogue.contexts():
            # The default one is there always, and does not count.
            contexts.add(owned_name(each), int(each != DEFAULT_CONTEXT))
        allowed = self._contexts_max
        if room_for(owned_name(context), allowed, [contexts], self._tenants()) >= 1:
            return
        raise not_permitted(
            f"context {context}: there are {contexts.total}, max.schema.contexts is {allowed}"
            f"{Shares(allowed).told(contexts.total + 1)}; delete one that is empty, or raise it"
        )

    def _check_growth(self, what: str, scope: str | None, growth_bytes: int) -> None:
        held, allowed = self.catalogue.held_bytes, self._size_max_bytes
        name = owned_name(context_of_scope(scope))
        if growth_bytes <= 0 or growth_bytes <= room_for(name, allowed, [held], self._tenants()):
            return
        size_bytes = held.total + growth_bytes
        raise not_permitted(
            f"{what}: all that is registered would take {size_bytes} bytes, "
            f"all.schemas.max.bytes is {allowed}{Shares(allowed).told(size_bytes)}; delete what is "
            "not used, for good (permanent=true), or raise it"
        )

    def _check_reference(self, subject: str, number: int) -> None:
        try:
            self.catalogue.version(subject, number)
        except RegistryRefusal as refusal:
            raise invalid_schema(
                f"references: {subject} version {number} is not registered: {refusal}"
            ) from None

    def _schema_for(self, request: Register) -> StoredSchema:
        catalogue = self.catalogue
        context, schema_id = context_of(request.subject), request.schema_id
        if schema_id is None:
            schema_id = catalogue.id_of(context, request.identity)
        if schema_id is None:
            schema_id = catalogue.highest_id(context) + 1
        if schema_id > SCHEMA_ID_MAX:
            raise not_permitted(f"id {schema_id}: the highest possible id is {SCHEMA_ID_MAX}")
        known = catalogue.schemas.get(ContextId(context, schema_id))
        if known is not None and known.identity == request.identity:
            return known
        if known is not None and not self._is_replaceable(known, request):
            raise not_permitted(f"Overwrite new schema with id {schema_id} is not permitted.")
        return StoredSchema(schema_id, request.text, request.identity, context)

    def _is_replaceable(self, known: StoredSchema, request: Register) -> bool:
        """Whether only metadata or rules differ, of a schema that this subject has deleted."""
        return known.identity.fingerprint == request.identity.fingerprint and all(
            use.is_deleted and use.subject == request.subject
            for use in self.catalogue.uses(known.context_id, deleted=True)
        )

    def _number_for(self, request: Register) -> int:
        following = self.catalogue.next_version(request.subject)
        number = request.version or following
        if request.schema_id is None and number != following:
            raise invalid_schema(
                f"Version is not one more than previous version: leave it out, or give {following}"
            )
        if any(version.number == number for version in self.catalogue.versions(request.subject)):
            raise not_permitted(
                f"version {number} of subject {request.subject} has another schema; "
                "leave the version out, or delete that one first"
            )
        return number

    # --- deleting -------------------------------------------------------------------------

    @_decision
    def delete_version(self, outcome: Outcome, request: DeleteVersion) -> int:
        subject, number, is_permanent = request
        catalogue = self.catalogue
        version = catalogue.version(subject, number, deleted=True)
        self._check_writable(subject)
        if version.is_deleted and not is_permanent:
            raise RegistryRefusal(
                RefusalKind.VERSION_SOFT_DELETED,
                f"Subject '{subject}' Version {number} was soft deleted."
                "Set permanent=true to delete permanently",
            )
        if is_permanent and not version.is_deleted:
            raise RegistryRefusal(
                RefusalKind.VERSION_NOT_SOFT_DELETED,
                f"Subject '{subject}' Version {number} was not deleted first before being "
                "permanently deleted",
            )
        self._check_unreferenced(version)
        if is_permanent:
            self._forget(outcome, [version])
        else:
            outcome.records.append(records.version_record(version._replace(is_deleted=True)))
            if all(v.number == number for v in catalogue.versions(subject)):
                self._forget_settings(outcome, subject)
        return number

    @_decision
    def delete_subject(self, outcome: Outcome, request: DeleteSubject) -> list[int]:
        subject, is_permanent = request
        versions = self.catalogue.versions(subject, deleted=True)
        if not versions:
            raise subject_not_found(subject)
        self._check_writable(subject)
        if not is_permanent and all(version.is_deleted for version in versions):
            raise RegistryRefusal(
                RefusalKind.SUBJECT_SOFT_DELETED,
                f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently",
            )
        if is_permanent and not all(version.is_deleted for version in versions):
            raise RegistryRefusal(
                RefusalKind.SUBJECT_NOT_SOFT_DELETED,
                f"Subject '{subject}' was not deleted first before being permanently deleted",
            )
        chosen = versions if is_permanent else [v for v in versions if not v.is_deleted]
        for version in chosen:
            self._check_unreferenced(version)
        if is_permanent:
            self._forget(outcome, chosen)
        else:
            gone = (version._replace(is_deleted=True) for version in chosen)
            outcome.records += [records.version_record(version) for version in gone]
            self._forget_settings(outcome, subject)
        return [version.number for version in chosen]

    def _check_writable(self, subject: str | None) -> None:
        if self.catalogue.mode_of(subject).is_read_only:
            raise not_permitted(f"Subject {subject} is in read-only mode")

    def _check_unreferenced(self, version: Version) -> None:
        if self.catalogue.referrers(version.subject, version.number):
            raise RegistryRefusal(
                RefusalKind.REFERENCE_EXISTS,
                "One or more references exist to the schema {magic=1,keytype=SCHEMA,subject="
                f"{version.subject},version={version.number}}}.",
            )

    def _forget_settings(self, outcome: Outcome, subject: str) -> None:
        """A subject without versions has no settings either, as in Confluent's registry."""
        if subject in self.catalogue.configs:
            outcome.records.append(records.config_record(subject, None))
        if subject in self.catalogue.modes:
            outcome.records.append(records.mode_record(subject, None))

    def _forget(self, outcome: Outcome, versions: list[Version]) -> None:
        """Remove versions, and schemas that no version has any more; their ids stay taken."""
        catalogue = self.catalogue
        outcome.records += [records.version_tombstone(version) for version in versions]
        gone = set(versions)
        orphans = sorted(
            context_id
            for context_id in {version.context_id for version in versions}
            if gone.issuperset(catalogue.uses(context_id, deleted=True))
        )
        for context in sorted({orphan.context for orphan in orphans}):
            outcome.records.append(records.ids_record(context, catalogue.highest_id(context)))
        outcome.records += [records.schema_tombstone(orphan) for orphan in orphans]

    @_decision
    def delete_context(self, outcome: Outcome, request: DeleteContext) -> None:
        """With all that is set in it. Who makes it again later gets ids from 1 on."""
        catalogue, context = self.catalogue, request.context
        if context == DEFAULT_CONTEXT:
            raise not_permitted("the default context cannot be deleted")
        if not catalogue.has_context(context):
            raise context_not_found(context)
        self._check_writable(scope_of(context))
        if any(context_of(subject) == context for subject in catalogue.subjects(deleted=True)):
            raise RegistryRefusal(
                RefusalKind.CONTEXT_NOT_EMPTY,
                f"The specified context '{scope_of(context)}' is not empty.",
            )
        outcome.records.append(records.context_tombstone(context))
        for scope in (each for each in catalogue.configs if _is_in(context, each)):
            outcome.records.append(records.config_record(scope, None))
        for scope in (each for each in catalogue.modes if _is_in(context, each)):
            outcome.records.append(records.mode_record(scope, None))

    # --- settings -------------------------------------------------------------------------

    @_decision
    def set_config(self, outcome: Outcome, request: SetConfig) -> SubjectConfig:
        """What is not given stays as it was. Without a config it is removed; answers the old."""
        subject, config, cleared = request
        old = self.catalogue.configs.get(subject)
        self._check_writable(subject)
        if config is not None:
            new = _merged(old or SubjectConfig(), config, cleared)
            growth_bytes = size_of_config(subject, new) - size_of_config(subject, old)
            self._check_growth("config", subject, growth_bytes)
            outcome.records.append(records.config_record(subject, new))
            return new
        if old is None:
            if subject is not None:
                raise subject_not_found(subject)
            return SubjectConfig()
        outcome.records.append(records.config_record(subject, None))
        return old

    @_decision
    def set_mode(self, outcome: Outcome, request: SetMode) -> Mode:
        """Answers the new mode; without one given, the old."""
        subject, mode, is_forced = request
        catalogue = self.catalogue
        old = catalogue.modes.get(subject)
        if mode is None:
            if old is None and subject is not None:
                raise subject_not_found(subject)
            if old is not None:
                outcome.records.append(records.mode_record(subject, None))
            return old or catalogue.mode_of(None)
        is_new = mode is Mode.IMPORT and catalogue.mode_of(subject) is not Mode.IMPORT
        if is_new and not is_forced and self._is_occupied(subject):
            raise not_permitted("Cannot import since found existing subjects")
        self._check_growth(
            "mode", subject, size_of_mode(subject, mode) - size_of_mode(subject, old)
        )
        outcome.records.append(records.mode_record(subject, mode))
        return mode

    def _is_occupied(self, scope: str | None) -> bool:
        """Whether subjects of it are registered; a scope is a subject, a context, or all."""
        if scope == GLOBAL_SCOPE:
            return any(self.catalogue.subjects())
        context, subject = parse_subject(scope or "")
        if subject:
            return self.catalogue.has_subject(scope or "")
        return any(context_of(name) == context for name in self.catalogue.subjects())

    # --- the runtime's side ---------------------------------------------------------------

    def replay(self, record: StateRecord) -> None:
        key, value = records.decode(record)
        catalogue = self.catalogue
        match key, value:
            case (records.SchemaKey() | records.ContextSchemaKey()) as key, None:
                catalogue.drop_schema(key.context_id)
            case records.VersionKey(subject, number), None:
                catalogue.drop_version(subject, number)
            case records.ConfigKey(subject), None:
                catalogue.put_config(subject, None)
            case records.ModeKey(subject), None:
                catalogue.put_mode(subject, None)
            case records.ContextKey(context), None:
                catalogue.drop_context(context)
            case _, StoredSchema() as schema:
                catalogue.put_schema(schema)
            case _, Version() as version:
                catalogue.put_version(version)
            case records.ConfigKey(subject), SubjectConfig() as config:
                catalogue.put_config(subject, config)
            case records.ModeKey(subject), Mode() as mode:
                catalogue.put_mode(subject, mode)
            case (records.IdsKey() | records.ContextKey()) as key, int(highest_id):
                catalogue.raise_highest_id(key.context, highest_id)

    def loaded(self, _now_ms: int) -> Outcome:
        return Outcome()

    def next_deadline_ms(self) -> int | None:
        return None

    def on_deadline(self, _now_ms: int) -> Outcome:
        return Outcome()


def _is_in(context: str, scope: str | None) -> bool:
    return scope is not None and context_of(scope) == context


def _merged(old: SubjectConfig, new: SubjectConfig, cleared: frozenset[str]) -> SubjectConfig:
    kept = {
        name: getattr(old, name)
        for name in SubjectConfig.__struct_fields__
        if getattr(new, name) is None and name not in cleared
    }
    return msgspec.structs.replace(new, **kept)
