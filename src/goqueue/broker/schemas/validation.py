"""Whether records fit the schemas of their topic, where the topic asks for it.

By id: each record names a schema that is registered for its subject. By content: its payload fits
that schema, too; a payload without an id is then taken for plain JSON and must fit the latest
version of the topic's subject.
"""

import asyncio
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from typing import Final, NamedTuple

from goqueue.broker.partitions.partition import Partition
from goqueue.broker.schemas.checking import CheckBudget, ContentChecker
from goqueue.broker.schemas.parsing import Remembered
from goqueue.broker.schemas.schemas import Schemas
from goqueue.model.batch import Buffer, check_produced
from goqueue.model.errors import UnfitRecord
from goqueue.model.records import NewRecord, Record, decode_records
from goqueue.model.rights import WritableTopic
from goqueue.model.schemas.contexts import DEFAULT_CONTEXT, ContextId, scope_of
from goqueue.model.schemas.errors import RefusalKind, RegistryRefusal
from goqueue.model.schemas.ids import SchemaUse, schema_use
from goqueue.model.schemas.messages import StoredSchema
from goqueue.model.schemas.tenant_subjects import inner_context
from goqueue.model.security.tenants import local_name, tenant_of_topic
from goqueue.model.topic_config import TopicConfig
from goqueue.schema_formats import (
    InvalidContent,
    InvalidSchema,
    NotExplained,
    SchemaSource,
    SchemaType,
    Validator,
    make_bounded_validator,
)
from goqueue.state.schemas.catalogue import Catalogue

# Compiled schemas of thousands of topics; counted by the size of their texts.
VALIDATORS_MAX_BYTES: Final = 32 * 1024 * 1024
# A batch of many small records, or of some that are slow to check, is looked at in portions of
# this long; the broker's other work comes between them.
PORTION_SECONDS: Final = 0.01
# A check of more steps than this, 10 ms or so, is not for the event loop: what a library does with
# one record cannot be interrupted.
LOOP_STEPS_MAX: Final = 1_000_000
# A larger batch, or one that is packed, is taken apart in a thread.
TAKEN_APART_MAX_BYTES: Final = 64 * 1024

_ANY_SIZE: Final = sys.maxsize
_NO_SIZE: Final = -1

OFF: Final = "off"
CONTENT: Final = "content"


class _Part(NamedTuple):
    """The keys or the values of a topic, and how they are checked."""

    name: str
    mode: str
    topic: str
    strategy: str
    context: str

    @property
    def subject(self) -> str:
        return f"{self._prefix}{self.name}"

    @property
    def _prefix(self) -> str:
        return f"{scope_of(self.context)}{self.topic}-"

    def accepts(self, subjects: Sequence[str], own: str) -> bool:
        """Whether a schema of these subjects may be used; `own` is ours or what it stands for."""
        if self.strategy == "topic":
            return own in subjects
        if self.strategy == "topic-record":
            return any(subject.startswith(self._prefix) for subject in subjects)
        return bool(subjects)


class _Compiled(NamedTuple):
    """What a validator is kept by: an id may be imported again with another schema."""

    context_id: ContextId
    fingerprint: str


def _compiled(schema: StoredSchema) -> _Compiled:
    return _Compiled(schema.context_id, schema.identity.fingerprint)


class _Check(NamedTuple):
    """How payloads are held against a schema: by `validate`, unless they have more bytes."""

    source: SchemaSource
    validate: Validator
    loop_max_bytes: int


class _Left(NamedTuple):
    """What is left to do for the key or the value of a record."""

    schema_id: int
    payload: bytes


class Validation:
    """Owned by the broker. Schemas are compiled and large batches taken apart in threads. Payloads
    are checked on the event loop where the schema's bound of work says that this is quick, and
    otherwise in a process of their own.
    """

    def __init__(
        self,
        schemas: Schemas,
        checker: ContentChecker,
        threads: Executor,
        config_of: Callable[[str], TopicConfig | None],
        *,
        request_cpu_ms_max: int,
    ) -> None:
        self.refused = 0
        self._checker = checker
        self._request_cpu_ms_max = request_cpu_ms_max
        self._config_of = config_of
        self._schemas = schemas
        self._threads = threads
        self._checks: Remembered[_Compiled, _Check] = Remembered(VALIDATORS_MAX_BYTES)
        # After a start, all producers of a topic need its schema at once.
        self._compiling: dict[_Compiled, asyncio.Task[_Check]] = {}

    async def check_batch(self, partition: Partition, batch: Buffer) -> None:
        """Refuse a produced batch whose records do not fit; those that do not are named.

        The partition's turn is held from here to the append: nobody overtakes one who waits for a
        schema.
        """
        header = check_produced(batch)
        if header.compression or len(batch) > TAKEN_APART_MAX_BYTES:
            bounds = partition.config.decoding_bounds
            records = await partition.decoder.in_thread(
                lambda allowed: decode_records(batch, allowed), bounds
            )
        else:
            records = decode_records(batch)
        unfit = await self._find_unfit(partition.name.topic, partition.config, records)
        if unfit:
            reasons = {index: str(refusal) for index, refusal in unfit.items()}
            first = next(iter(reasons))
            raise UnfitRecord(reasons[first], first, reasons)

    async def unfit_records(
        self, topic: WritableTopic, records: Sequence[NewRecord]
    ) -> dict[int, UnfitRecord]:
        """Why records do not fit, by their place. Of a topic that is not there, all do."""
        config = self._config_of(topic)
        return {} if config is None else await self._find_unfit(topic, config, records)

    def applies_to(self, topic: str) -> bool:
        """Whether some records of the topic may not fit."""
        config = self._config_of(topic)
        return config is not None and config.validates_schemas

    async def _find_unfit(
        self, topic: str, config: TopicConfig, records: Sequence[NewRecord | Record]
    ) -> dict[int, UnfitRecord]:
        """Why records do not fit, by their place."""
        if not config.validates_schemas:
            return {}
        strategy = config.schema_validation_strategy
        # A tenant's topic has its subjects in the tenant's contexts, by the name it knows.
        tenant = tenant_of_topic(topic)
        own, context = local_name(tenant, topic), inner_context(tenant, config.schema_context)
        parts = [
            _Part(name, mode, own, strategy, context)
            for name, mode in (
                ("key", config.schema_validation_key),
                ("value", config.schema_validation_value),
            )
            if mode != OFF
        ]
        catalogues = self._schemas.catalogues
        catalogue, position = await catalogues.loaded(), catalogues.position
        batch = _BatchCheck(catalogue, self._schemas, CheckBudget(self._request_cpu_ms_max))
        found = await self._check_all(batch, parts, records, range(len(records)))
        if found and batch.may_be_outdated:
            await catalogues.catch_up()
            if catalogues.position != position:
                batch = _BatchCheck(await catalogues.loaded(), self._schemas, batch.budget)
                found = await self._check_all(batch, parts, records, found)
        self.refused += len(found)
        return found

    async def _check_all(
        self,
        batch: "_BatchCheck",
        parts: Sequence[_Part],
        records: Sequence[NewRecord | Record],
        indexes: Iterable[int],
    ) -> dict[int, UnfitRecord]:
        clock = asyncio.get_running_loop().time
        found: dict[int, UnfitRecord] = {}
        until = clock() + PORTION_SECONDS
        for index in indexes:
            refusal = await self._refusal(batch, parts, records[index])
            if refusal is not None:
                found[index] = refusal
            if clock() >= until:
                await asyncio.sleep(0)
                until = clock() + PORTION_SECONDS
        return found

    async def _refusal(
        self, batch: "_BatchCheck", parts: Sequence[_Part], record: NewRecord | Record
    ) -> UnfitRecord | None:
        for part in parts:
            try:
                left = batch.check(part, record)
                if left is not None:
                    await self._check_slowly(batch, part, left)
            except UnfitRecord as refusal:
                return refusal
            except RegistryRefusal as error:
                return UnfitRecord(f"its schema cannot be used now: {error}")
        return None

    async def _check_slowly(self, batch: "_BatchCheck", part: _Part, left: _Left) -> None:
        """What has to wait: for the schema, or for the process that checks."""
        schema_id, payload = left
        compiled = _compiled(
            self._schemas.catalogues.now.schema(ContextId(part.context, schema_id))
        )
        check = self._checks.get(compiled)
        if check is None:
            check = await self._compiled_once(compiled)
        batch.checks[schema_id] = check
        if batch.fits(part, left):
            return
        key = f"{part.context}:{schema_id}/{compiled.fingerprint}"
        try:
            await self._checker.check(key, check.source, payload, batch.budget)
        except InvalidContent as error:
            raise _unfit(part, schema_id, error) from None

    async def _compiled_once(self, compiled: _Compiled) -> _Check:
        task = self._compiling.get(compiled)
        if task is None:
            task = self._compiling[compiled] = asyncio.create_task(self._compile(compiled))
            task.add_done_callback(lambda done: self._over(compiled, done))
        # Shielded: a client that goes away must not stop it for the others.
        return await asyncio.shield(task)

    def _over(self, compiled: _Compiled, done: "asyncio.Task[_Check]") -> None:
        del self._compiling[compiled]
        if not done.cancelled():
            # Looked at, though nobody may be left to be told.
            done.exception()

    async def _compile(self, compiled: _Compiled) -> _Check:
        try:
            source, steps = await self._schemas.assessed(compiled.context_id)
        except RegistryRefusal as error:
            reason = f"schema {compiled.context_id.id} cannot be used for checks: {error}"
            if error.kind is not RefusalKind.INVALID_SCHEMA:
                raise UnfitRecord(reason) from error
            # Found out once and not for every message: it takes its time.
            check = _Check(SchemaSource(SchemaType.JSON, ""), _refusing(reason), _ANY_SIZE)
            self._checks.put(compiled, check, size_bytes=len(reason))
            return check
        check = _Check(source, _refusing("it is not checked here"), _NO_SIZE)
        if steps is not None:
            loop = asyncio.get_running_loop()
            validate = await loop.run_in_executor(self._threads, _make_validator, source, steps)
            check = _Check(source, validate, LOOP_STEPS_MAX // max(1, steps))
        size_bytes = len(source.text) + sum(len(text) for _, text in source.references)
        self._checks.put(compiled, check, size_bytes=size_bytes)
        return check


class _BatchCheck:
    """The check of one batch: what was found out about a schema holds for all its records, which
    have their schemas in one context.
    """

    def __init__(self, catalogue: Catalogue, schemas: Schemas, budget: CheckBudget) -> None:
        self.checks: dict[int, _Check] = {}
        self.budget = budget
        # Whether it depends on what may have been registered a moment ago, at another broker.
        self.may_be_outdated = False
        self._catalogue = catalogue
        self._schemas = schemas
        self._accepted: dict[tuple[str, int], bool] = {}

    def check(self, part: _Part, record: NewRecord | Record) -> _Left | None:
        """Raises `UnfitRecord`; gives back what cannot be found out here and now."""
        data = record.key if part.name == "key" else record.value
        if data is None:
            return None  # a tombstone, or a message without a key
        try:
            use = schema_use(part.name, data, record.headers)
        except ValueError as error:
            raise UnfitRecord(f"{part.name}: {error}") from None
        schema_id = self._plain_json(part) if use is None else self._named(part, use)
        if part.mode != CONTENT:
            return None
        left = _Left(schema_id, data if use is None else use.payload)
        return None if self.fits(part, left) else left

    def fits(self, part: _Part, left: _Left) -> bool:
        """Whether it is known to; raises `UnfitRecord` if it is known not to."""
        schema_id, payload = left
        check = self.checks.get(schema_id)
        if check is None or len(payload) > check.loop_max_bytes:
            return False
        try:
            check.validate(payload)
            return True
        except NotExplained:
            return False
        except InvalidContent as error:
            raise _unfit(part, schema_id, error) from None

    def _plain_json(self, part: _Part) -> int:
        """The schema for a payload that names none."""
        if part.mode == CONTENT and part.strategy == "topic":
            latest = self._catalogue.latest(self._catalogue.resolve_alias(part.subject))
            if latest is None:
                raise self._missed(
                    f"{part.name}: no schema is registered for subject {part.subject!r}, and "
                    f"topic {part.topic!r} takes only what fits one"
                )
            self.may_be_outdated = True
            if self._catalogue.schema(latest.context_id).identity.type == SchemaType.JSON:
                return latest.schema_id
        raise UnfitRecord(
            f"{part.name}: has no schema id; topic {part.topic!r} wants Confluent's prefix of 5 "
            f"bytes or the header __{part.name}_schema_id"
        )

    def _named(self, part: _Part, use: SchemaUse) -> int:
        catalogue = self._catalogue
        if use.guid is not None:
            found = catalogue.ids_of_guid(use.guid)
            ids = [schema_id for context, schema_id in found if context == part.context]
            if not ids:
                raise self._missed(
                    f"{part.name}: there is no schema with GUID {use.guid}{_in(part.context)}"
                )
            schema_id = ids[0]
        else:
            schema_id = use.schema_id
        accepted = self._accepted.get((part.name, schema_id))
        if accepted is None:
            context_id = ContextId(part.context, schema_id)
            if context_id not in catalogue.schemas:
                raise self._missed(
                    f"{part.name}: there is no schema with id {schema_id}{_in(part.context)}"
                )
            own = catalogue.resolve_alias(part.subject)
            accepted = part.accepts(self._schemas.subjects_of(context_id), own)
            self._accepted[part.name, schema_id] = accepted
        if not accepted:
            raise self._missed(
                f"{part.name}: schema {schema_id} is not registered for subject {part.subject!r} "
                f"(schema.validation.strategy is {part.strategy})"
            )
        return schema_id

    def _missed(self, reason: str) -> UnfitRecord:
        self.may_be_outdated = True
        return UnfitRecord(reason)


def _make_validator(source: SchemaSource, steps: int) -> Validator:
    """In a thread: libraries are loaded on first use, and large schemas take their time."""
    try:
        return make_bounded_validator(source, steps)
    except InvalidSchema as error:
        return _refusing(f"its schema cannot be used for checks: {error}")


def _in(context: str) -> str:
    return "" if context == DEFAULT_CONTEXT else f" in context {context}"


def _unfit(part: _Part, schema_id: int, error: InvalidContent) -> UnfitRecord:
    return UnfitRecord(f"{part.name}: does not fit schema {schema_id}: {error}")


def _refusing(reason: str) -> Validator:
    def refuse(_payload: bytes) -> None:
        raise InvalidContent(reason)

    return refuse
