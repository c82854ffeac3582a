"""Changing what is registered: whole operations, done by the leader of `_schemas`.

Any broker takes them and asks the leader. A registration is asked for again if its answer was lost
with a leader: the same schema gets the same id. Nothing else is repeated.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, Generic, TypeVar

import msgspec

from goqueue.broker.calls.calls import (
    Calls,
    before_anything_is_done,
)
from goqueue.broker.runtime.shard import Command, StateShard, untimed
from goqueue.broker.schemas.catalogues import Catalogues
from goqueue.broker.schemas.compatibility import compare, predecessors
from goqueue.broker.schemas.recognising import KnownSchema, Recogniser, inherited
from goqueue.broker.schemas.subjects import check_scope, check_subject
from goqueue.broker.schemas.worker import SchemaWorker
from goqueue.model.calls import Method
from goqueue.model.rights import (
    ConfigurableScope,
    DeletableContext,
    DeletableSubject,
    WritableSubject,
)
from goqueue.model.schemas.contexts import context_of, qualified
from goqueue.model.schemas.errors import RefusalKind, RegistryRefusal
from goqueue.model.schemas.formats import SchemaType
from goqueue.model.schemas.messages import (
    DeleteContext,
    DeleteSubject,
    DeleteVersion,
    Mode,
    NewSchema,
    Register,
    Registered,
    SetConfig,
    SetMode,
    SubjectConfig,
)
from goqueue.state.schemas.catalogue import DEFAULT_COMPATIBILITY, Catalogue
from goqueue.state.schemas.machine import SchemaMachine

R = TypeVar("R")
Q = TypeVar("Q")

# The last of the slow schemas waits for a minute and a half until it is looked at, and once more
# until it is compared. A broker that is lost is noticed much sooner.
WRITE_TIMEOUT_S: Final = 200.0


class Written(msgspec.Struct, Generic[R], frozen=True):
    """`end`: what is committed below this offset was seen or done by the leader."""

    answer: R
    end: int


class RegisterSchema(msgspec.Struct, frozen=True):
    subject: WritableSubject
    new: NewSchema
    normalize: bool


class RemoveVersion(msgspec.Struct, frozen=True):
    """Without a number, the latest."""

    subject: DeletableSubject
    number: int | None
    is_permanent: bool


class RemoveSubject(msgspec.Struct, frozen=True):
    subject: DeletableSubject
    is_permanent: bool


class ChangeConfig(msgspec.Struct, frozen=True):
    scope: ConfigurableScope
    config: SubjectConfig | None
    cleared: frozenset[str] = frozenset()


class ChangeMode(msgspec.Struct, frozen=True):
    scope: ConfigurableScope
    mode: Mode | None
    is_forced: bool = False


class RemoveContext(msgspec.Struct, frozen=True):
    context: DeletableContext


# A schema that is registered already is answered with its id.
REGISTER: Final = Method(
    "schemas.register", RegisterSchema, Written[Registered], is_repeatable=True
)
DELETE_VERSION: Final = Method("schemas.delete_version", RemoveVersion, Written[int])
DELETE_SUBJECT: Final = Method("schemas.delete_subject", RemoveSubject, Written[list[int]])
SET_CONFIG: Final = Method("schemas.set_config", ChangeConfig, Written[SubjectConfig])
SET_MODE: Final = Method("schemas.set_mode", ChangeMode, Written[Mode])
DELETE_CONTEXT: Final = Method("schemas.delete_context", RemoveContext, Written[None])


class SchemaWriting:
    def __init__(
        self,
        catalogues: Catalogues,
        recogniser: Recogniser,
        worker: SchemaWorker,
        calls: Calls,
        *,
        clock_ms: Callable[[], int],
    ) -> None:
        self._catalogues = catalogues
        self._recogniser = recogniser
        self._worker = worker
        self._calls = calls
        self._clock_ms = clock_ms
        # Who registers under a subject compares with its versions: one at a time for each.
        self._turns: dict[str, _Turn] = {}
        calls.serve(REGISTER, self._register_here)
        calls.serve(DELETE_VERSION, self._delete_version_here)
        calls.serve(DELETE_SUBJECT, self._delete_subject_here)
        calls.serve(SET_CONFIG, self._set_config_here)
        calls.serve(SET_MODE, self._set_mode_here)
        calls.serve(DELETE_CONTEXT, self._delete_context_here)

    # --- at any broker --------------------------------------------------------------------

    async def register(
        self, subject: WritableSubject, new: NewSchema, *, normalize: bool = False
    ) -> Registered:
        """The schema's id and version under the subject, given to it now or before.

        As in Confluent's registry, text, metadata and rules that are not given are those of the
        version before.
        """
        check_subject(subject)
        return await self._ask(REGISTER, RegisterSchema(subject, new, normalize))

    async def delete_version(
        self, subject: DeletableSubject, number: int | None, *, is_permanent: bool
    ) -> int:
        """Returns the number; with None, it is the latest that goes."""
        return await self._ask(DELETE_VERSION, RemoveVersion(subject, number, is_permanent))

    async def delete_subject(self, subject: DeletableSubject, *, is_permanent: bool) -> list[int]:
        return await self._ask(DELETE_SUBJECT, RemoveSubject(subject, is_permanent))

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
        return await self._ask(SET_CONFIG, ChangeConfig(scope, config, cleared))

    async def delete_config(self, scope: ConfigurableScope) -> SubjectConfig:
        """Returns what was set there."""
        old = await self._ask(SET_CONFIG, ChangeConfig(scope, None))
        return old.with_compatibility(DEFAULT_COMPATIBILITY) if scope.subject is None else old

    async def set_mode(self, scope: ConfigurableScope, mode: Mode, *, is_forced: bool) -> Mode:
        check_scope(scope.subject)
        return await self._ask(SET_MODE, ChangeMode(scope, mode, is_forced))

    async def delete_mode(self, scope: ConfigurableScope) -> Mode:
        """Returns the mode that was set there."""
        return await self._ask(SET_MODE, ChangeMode(scope, None))

    async def delete_context(self, context: DeletableContext) -> None:
        await self._ask(DELETE_CONTEXT, RemoveContext(context))

    async def _ask(self, method: Method[Q, Written[R]], request: Q) -> R:
        await self._catalogues.state.ensure()
        written = await self._calls.ask(
            method, self._catalogues.place, request, timeout_s=WRITE_TIMEOUT_S
        )
        self._catalogues.told(written.end)
        return written.answer

    # --- at the leader --------------------------------------------------------------------

    async def _register_here(self, request: RegisterSchema) -> Written[Registered]:
        shard, subject = await self._shard(), request.subject
        catalogue = shard.machine.catalogue
        new = _with_text(catalogue, subject, request.new)
        known = await self._recogniser.parse(catalogue, subject, new, normalize=request.normalize)
        async with self._turn(subject):
            identity = known.identity
            if new.schema_id is None:
                found = await self._recogniser.find(catalogue, subject, known)
                if found is not None:
                    registered = Registered(catalogue.schema(found.context_id), found)
                    # Another client may be waiting for it to be committed.
                    await shard.settled()
                    return Written(registered, shard.partition.high_watermark)
                identity = inherited(catalogue, subject, identity)
            if catalogue.mode_of(subject) is Mode.READWRITE:
                known = known._replace(identity=identity)
                await self._check_compatible(catalogue, subject, known, new.asker)
            register = Register(
                subject=subject,
                text=known.source.text,
                identity=identity,
                now_ms=self._clock_ms(),
                schema_id=new.schema_id,
                version=new.version,
            )
            return await _execute(shard, untimed(SchemaMachine.register, register))

    async def _check_compatible(
        self, catalogue: Catalogue, subject: str, known: KnownSchema, asker: str
    ) -> None:
        level = catalogue.compatibility_of(subject)
        olds = predecessors(catalogue, subject, known.identity.metadata, level)
        mismatch = await compare(self._worker, catalogue, known.source, olds, level, asker=asker)
        if mismatch is not None:
            raise RegistryRefusal(
                RefusalKind.INCOMPATIBLE,
                "Schema being registered is incompatible with an earlier schema for subject "
                f'"{subject}", details: [{", ".join(mismatch.messages())}]',
            )

    async def _delete_version_here(self, request: RemoveVersion) -> Written[int]:
        shard, number = await self._shard(), request.number
        if number is None:
            number = shard.machine.catalogue.version(request.subject, None).number
        delete = DeleteVersion(request.subject, number, request.is_permanent)
        return await _execute(shard, untimed(SchemaMachine.delete_version, delete))

    async def _delete_subject_here(self, request: RemoveSubject) -> Written[list[int]]:
        delete = DeleteSubject(request.subject, request.is_permanent)
        return await _execute(await self._shard(), untimed(SchemaMachine.delete_subject, delete))

    async def _set_config_here(self, request: ChangeConfig) -> Written[SubjectConfig]:
        change = SetConfig(request.scope.subject, request.config, request.cleared)
        return await _execute(await self._shard(), untimed(SchemaMachine.set_config, change))

    async def _set_mode_here(self, request: ChangeMode) -> Written[Mode]:
        change = SetMode(request.scope.subject, request.mode, request.is_forced)
        return await _execute(await self._shard(), untimed(SchemaMachine.set_mode, change))

    async def _delete_context_here(self, request: RemoveContext) -> Written[None]:
        delete = DeleteContext(request.context)
        return await _execute(await self._shard(), untimed(SchemaMachine.delete_context, delete))

    async def _shard(self) -> StateShard[SchemaMachine]:
        with before_anything_is_done():
            return await self._catalogues.state.shard(self._catalogues.place.partition)

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


async def _execute(
    shard: StateShard[SchemaMachine], command: Command[SchemaMachine, R | RegistryRefusal]
) -> Written[R]:
    answer = await shard.execute(command)
    if isinstance(answer, RegistryRefusal):
        raise answer
    return Written(answer, shard.partition.high_watermark)


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
