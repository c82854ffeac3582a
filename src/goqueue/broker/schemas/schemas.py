"""The schema registry on this broker: registering, looking up, comparing, deleting.

What is registered is a state machine on `_schemas`; parsing and comparing run in processes of
their own, so that no schema can hold up the event loop.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, TypeVar

from goqueue.broker.runtime.shard import Command, StateShard, untimed
from goqueue.broker.runtime.topic import ShardHost, StateTopic
from goqueue.broker.schemas.compatibility import compare, predecessors
from goqueue.broker.schemas.copied_catalogue import CopiedCatalogue
from goqueue.broker.schemas.parsing import SchemaParser
from goqueue.broker.schemas.reading import SchemaReading
from goqueue.broker.schemas.references import resolve, source_of
from goqueue.broker.schemas.subjects import check_scope, check_subject
from goqueue.broker.schemas.worker import SchemaWorker
from goqueue.model.rights import (
    ConfigurableScope,
    DeletableContext,
    DeletableSubject,
    ReadableSubject,
    WritableSubject,
)
from goqueue.model.schemas.contexts import DEFAULT_CONTEXT, ContextId, context_of, qualified
from goqueue.model.schemas.errors import (
    RefusalKind,
    RegistryRefusal,
    invalid_schema,
    schema_not_found,
    subject_not_found,
    version_not_found,
)
from goqueue.model.schemas.formats import ResolvedReference, SchemaSource, SchemaType
from goqueue.model.schemas.messages import (
    DeleteContext,
    DeleteSubject,
    DeleteVersion,
    Mode,
    NewSchema,
    Reference,
    Register,
    Registered,
    SchemaIdentity,
    SetConfig,
    SetMode,
    ShownVersion,
    SubjectConfig,
    Version,
    schema_size_bytes,
)
from goqueue.model.schemas.mismatch import Mismatch
from goqueue.schema_formats import bound_of_work
from goqueue.state.schemas.catalogue import DEFAULT_COMPATIBILITY, Catalogue
from goqueue.state.schemas.machine import SchemaMachine

SCHEMAS_TOPIC: Final = "_schemas"

_NOTHING: Final = Catalogue()

Answer = TypeVar("Answer")


class _Known(NamedTuple):
    """A schema that has been parsed; the text is the one to be stored."""

    source: SchemaSource
    identity: SchemaIdentity
    normalize: bool


class Schemas:
    """Owned by the broker. `reading` shows what is registered to clients."""

    def __init__(
        self, host: ShardHost, *, schema_max_bytes: int, all_max_bytes: int, contexts_max: int
    ) -> None:
        self.schema_max_bytes = schema_max_bytes

        def make() -> SchemaMachine:
            return SchemaMachine(contexts_max=contexts_max, size_max_bytes=all_max_bytes)

        self._copy = CopiedCatalogue(host, SCHEMAS_TOPIC, make)
        self.state: StateTopic[SchemaMachine] = StateTopic(
            host,
            SCHEMAS_TOPIC,
            partitions=1,
            make=lambda _index, _partition: make(),
            perform=lambda _index, _effects: None,
        )
        self.worker = SchemaWorker()
        self._clock_ms = host.clock_ms
        self._parser = SchemaParser(self.worker)
        self.reading = SchemaReading(self.loaded, self._parser)
        # Who registers under a subject compares with its versions: one at a time for each.
        self._turns: dict[str, _Turn] = {}

    async def start(self) -> None:
        await self.state.start()

    async def close(self) -> None:
        self.state.close()
        await self.worker.close()

    # --- what is registered ---------------------------------------------------------------

    @property
    def catalogue(self) -> Catalogue:
        """What is registered now, where this broker leads the registry's log; elsewhere, what was
        when `loaded` was called last. `NotLeader` while it is not known."""
        for shard in self.state.loaded_shards():
            return shard.machine.catalogue
        return self._copy.catalogue if self.state.exists else _NOTHING

    async def loaded(self) -> Catalogue:
        """As `catalogue`, waiting for it."""
        if await self.state.all_shards() or not self.state.exists:
            return self.catalogue
        return await self._copy.read()

    def source(self, context_id: ContextId) -> SchemaSource:
        """A schema with what it refers to; raises `RegistryRefusal` if there is none."""
        return source_of(self.catalogue, self.catalogue.schema(context_id))

    def subjects_of(self, context_id: ContextId) -> list[str]:
        """The subjects that have this schema in a version that is not deleted, by name."""
        return list(dict.fromkeys(v.subject for v in self.catalogue.uses(context_id)))

    async def compiled(self, context_id: ContextId) -> SchemaSource:
        """As `source`, with Protobuf compiled: a validator made of it needs no compiler, which
        would hold up the event loop from any thread.
        """
        source = self.source(context_id)
        if source.type is not SchemaType.PROTOBUF:
            return source
        before: list[ResolvedReference] = []
        for name, text in source.references:
            part = SchemaSource(source.type, text, tuple(before))
            before.append(ResolvedReference(name, await self._parser.describe(part)))
        whole = source._replace(references=tuple(before))
        return whole._replace(text=await self._parser.describe(whole))

    async def assessed(self, context_id: ContextId) -> tuple[SchemaSource, int | None]:
        """As `compiled`, with the steps that a check takes for each byte of a payload; None where
        they have no bound.
        """
        source = await self.compiled(context_id)
        if source.type is SchemaType.JSON:
            return source, await self._parser.assess(source)
        return source, bound_of_work(source)

    # --- registering and looking up -------------------------------------------------------

    async def register(
        self, subject: WritableSubject, new: NewSchema, *, normalize: bool = False
    ) -> Registered:
        """The schema's id and version under the subject, given to it now or before.

        As in Confluent's registry, text, metadata and rules that are not given are those of the
        version before.
        """
        check_subject(subject)
        new = _with_text(await self.loaded(), subject, new)
        known = await self._parse(subject, new, normalize=normalize)
        async with self._turn(subject):
            identity = known.identity
            if new.schema_id is None:
                found = await self._find(subject, known)
                if found is not None:
                    return Registered(self.catalogue.schema(found.context_id), found)
                identity = _inherited(self.catalogue, subject, identity)
            if (await self.loaded()).mode_of(subject) is Mode.READWRITE:
                known = known._replace(identity=identity)
                await self._check_compatible(subject, known, new.asker)
            request = Register(
                subject=subject,
                text=known.source.text,
                identity=identity,
                now_ms=self._clock_ms(),
                schema_id=new.schema_id,
                version=new.version,
            )
            return await self._execute(untimed(SchemaMachine.register, request))

    async def look_up(
        self,
        subject: ReadableSubject,
        new: NewSchema,
        *,
        normalize: bool,
        deleted: bool,
        text_format: str | None,
    ) -> ShownVersion:
        """The version of the subject that has this schema; raises if there is none."""
        catalogue = await self.loaded()
        if not catalogue.has_subject(subject, deleted=deleted):
            raise subject_not_found(subject)
        known = await self._parse(subject, new, normalize=normalize)
        found = await self._find(subject, known, deleted=deleted)
        if found is None:
            raise schema_not_found()
        return await self.reading.shown(self.catalogue, found, text_format)

    async def _find(self, subject: str, known: _Known, *, deleted: bool = False) -> Version | None:
        catalogue = await self.loaded()
        identity = known.identity
        found = catalogue.find(subject, identity, deleted=deleted)
        if found is None and identity.type == SchemaType.AVRO and not identity.references:
            found = await self._find_resolved(subject, known, deleted=deleted)
        if found is None:
            identity = _inherited(self.catalogue, subject, identity)
            found = self.catalogue.find(subject, identity, deleted=deleted)
        return found

    async def _find_resolved(self, subject: str, known: _Known, *, deleted: bool) -> Version | None:
        """Avro's serialisers know types, not references: they send the schema as a whole."""
        for version in reversed(self.catalogue.versions(subject, deleted=deleted)):
            schema = self.catalogue.schemas.get(version.context_id)
            if schema is None or not _may_be_whole(known.identity, schema.identity):
                continue
            try:
                source = source_of(self.catalogue, schema)
            except RegistryRefusal:
                continue  # a deleted one, and what it refers to is gone
            whole = SchemaSource(SchemaType.AVRO, await self._parser.describe(source))
            parsed = await self._parser.parse(whole, normalize=known.normalize)
            if parsed.fingerprint == known.identity.fingerprint:
                return version
        return None

    async def check(
        self, subject: ReadableSubject, new: NewSchema, *, normalize: bool
    ) -> Mismatch | None:
        """Whether the schema could be registered."""
        known = await self._parse(subject, new, normalize=normalize)
        catalogue = await self.loaded()
        level = catalogue.compatibility_of(subject)
        olds = predecessors(catalogue, subject, known.identity.metadata, level)
        return await compare(self.worker, catalogue, known.source, olds, level, asker=new.asker)

    async def check_version(
        self, subject: ReadableSubject, number: int | None, new: NewSchema, *, normalize: bool
    ) -> Mismatch | None:
        """Whether the schema is compatible with that version, or with the latest if None.

        Without a latest version, nothing is there to be compatible with.
        """
        catalogue = await self.loaded()
        olds = [version for version in (catalogue.latest(subject),) if version]
        if number is not None:
            olds = [version for version in catalogue.versions(subject) if version.number == number]
            if not olds:
                raise version_not_found(number)
        known = await self._parse(subject, new, normalize=normalize)
        level = catalogue.compatibility_of(subject)
        catalogue = await self.loaded()
        return await compare(self.worker, catalogue, known.source, olds, level, asker=new.asker)

    async def _parse(self, subject: str, new: NewSchema, *, normalize: bool) -> _Known:
        self._check_size(new)
        catalogue = await self.loaded()
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
        return _Known(source._replace(text=parsed.canonical), identity, normalize)

    def _check_size(self, new: NewSchema) -> None:
        if not new.text.strip():
            raise RegistryRefusal(RefusalKind.INVALID_SCHEMA, "Empty schema")
        size_bytes = schema_size_bytes(new.text, new.references, new.metadata, new.rule_set)
        if size_bytes > self.schema_max_bytes:
            raise RegistryRefusal(
                RefusalKind.SCHEMA_TOO_LARGE,
                f"schema: it has {size_bytes} bytes, schema.max.bytes is "
                f"{self.schema_max_bytes}; split it into several with references",
            )

    async def _check_compatible(self, subject: str, known: _Known, asker: str) -> None:
        catalogue = self.catalogue
        level = catalogue.compatibility_of(subject)
        olds = predecessors(catalogue, subject, known.identity.metadata, level)
        mismatch = await compare(self.worker, catalogue, known.source, olds, level, asker=asker)
        if mismatch is not None:
            raise RegistryRefusal(
                RefusalKind.INCOMPATIBLE,
                "Schema being registered is incompatible with an earlier schema for subject "
                f'"{subject}", details: [{", ".join(mismatch.messages())}]',
            )

    # --- deleting and settings ------------------------------------------------------------

    async def delete_version(
        self, subject: DeletableSubject, number: int | None, *, is_permanent: bool
    ) -> int:
        """Returns the number; with None, it is the latest that goes."""
        if number is None:
            number = (await self.loaded()).version(subject, None).number
        request = DeleteVersion(subject, number, is_permanent)
        return await self._execute(untimed(SchemaMachine.delete_version, request))

    async def delete_subject(self, subject: DeletableSubject, *, is_permanent: bool) -> list[int]:
        request = DeleteSubject(subject, is_permanent)
        return await self._execute(untimed(SchemaMachine.delete_subject, request))

    async def set_config(
        self,
        scope: ConfigurableScope,
        config: SubjectConfig,
        *,
        cleared: frozenset[str] = frozenset(),
    ) -> SubjectConfig:
        """Returns all that is set there now."""
        check_scope(scope.subject)
        if config.alias is not None:
            check_subject(qualified(context_of(scope.subject or ""), config.alias))
        request = SetConfig(scope.subject, config, cleared)
        return await self._execute(untimed(SchemaMachine.set_config, request))

    async def delete_config(self, scope: ConfigurableScope) -> SubjectConfig:
        """Returns what was set there."""
        request = SetConfig(scope.subject, None)
        old = await self._execute(untimed(SchemaMachine.set_config, request))
        return old.with_compatibility(DEFAULT_COMPATIBILITY) if scope.subject is None else old

    async def set_mode(self, scope: ConfigurableScope, mode: Mode, *, is_forced: bool) -> Mode:
        check_scope(scope.subject)
        request = SetMode(scope.subject, mode, is_forced)
        return await self._execute(untimed(SchemaMachine.set_mode, request))

    async def delete_mode(self, scope: ConfigurableScope) -> Mode:
        """Returns the mode that was set there."""
        request = SetMode(scope.subject, None)
        return await self._execute(untimed(SchemaMachine.set_mode, request))

    async def delete_context(self, context: DeletableContext) -> None:
        await self._execute(untimed(SchemaMachine.delete_context, DeleteContext(context)))

    # --- the machine ----------------------------------------------------------------------

    async def _execute(self, command: Command[SchemaMachine, Answer | RegistryRefusal]) -> Answer:
        shard: StateShard[SchemaMachine] = await self.state.shard_for(SCHEMAS_TOPIC)
        answer = await shard.execute(command)
        if isinstance(answer, RegistryRefusal):
            raise answer
        return answer

    @asynccontextmanager
    async def _turn(self, subject: str) -> AsyncIterator[None]:
        turn = self._turns.setdefault(subject, _Turn())
        turn.takers += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.takers -= 1
            if not turn.takers:
                del self._turns[subject]


class _Turn:
    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.takers = 0


def _with_text(catalogue: Catalogue, subject: str, new: NewSchema) -> NewSchema:
    """Who sends metadata or rules alone means the latest schema."""
    latest = catalogue.latest(subject)
    if new.text.strip() or latest is None:
        return new
    schema = catalogue.schema(latest.context_id)
    return new._replace(
        type=SchemaType(schema.identity.type),
        text=schema.text,
        references=schema.identity.references,
    )


def _inherited(catalogue: Catalogue, subject: str, identity: SchemaIdentity) -> SchemaIdentity:
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
