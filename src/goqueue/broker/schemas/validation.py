"""Whether records fit the schemas of their topic, where the topic asks for it.

By id: each record names a schema that is registered for its subject. By content: its payload fits
that schema, too; a payload without an id is then taken for plain JSON and must fit the latest
version of the topic's subject.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Final, NamedTuple

from goqueue.broker.partitions.partition import Partition
from goqueue.broker.schemas.parsing import Remembered
from goqueue.broker.schemas.schemas import Schemas
from goqueue.model.batch import Buffer, check_produced
from goqueue.model.errors import UnfitRecord
from goqueue.model.records import NewRecord, Record, decode_records
from goqueue.model.rights import WritableTopic
from goqueue.model.schemas.errors import RegistryRefusal
from goqueue.model.schemas.ids import SchemaUse, schema_use
from goqueue.model.schemas.messages import StoredSchema
from goqueue.model.topic_config import TopicConfig
from goqueue.schema_formats import (
    InvalidContent,
    InvalidSchema,
    SchemaSource,
    SchemaType,
    Validator,
    make_validator,
)
from goqueue.state.schemas.catalogue import Catalogue

# Compiled schemas of thousands of topics; counted by the size of their texts.
VALIDATORS_MAX_BYTES: Final = 32 * 1024 * 1024
# A batch of many small records, or of some that are slow to check, is looked at in portions of
# this long; the broker's other work comes between them.
PORTION_SECONDS: Final = 0.01
# A larger batch, or one that is packed, is taken apart in a thread.
TAKEN_APART_MAX_BYTES: Final = 64 * 1024

OFF: Final = "off"
CONTENT: Final = "content"


class _Part(NamedTuple):
    """The keys or the values of a topic, and how they are checked."""

    name: str
    mode: str
    topic: str
    strategy: str

    @property
    def subject(self) -> str:
        return f"{self.topic}-{self.name}"

    def accepts(self, subjects: Sequence[str], own: str) -> bool:
        """Whether a schema of these subjects may be used; `own` is ours or what it stands for."""
        if self.strategy == "topic":
            return own in subjects
        if self.strategy == "topic-record":
            return any(subject.startswith(f"{self.topic}-") for subject in subjects)
        return bool(subjects)


class _Compiled(NamedTuple):
    """What a validator is kept by: an id may be imported again with another schema."""

    schema_id: int
    fingerprint: str


def _compiled(schema: StoredSchema) -> _Compiled:
    return _Compiled(schema.id, schema.identity.fingerprint)


class _NotCompiled(Exception):
    """Work for a thread, and then the record is checked again."""

    def __init__(self, schema_id: int) -> None:
        super().__init__(schema_id)
        self.schema_id = schema_id


class Validation:
    """Owned by the broker. Schemas are compiled and large batches taken apart in threads; the rest
    runs on the event loop.
    """

    def __init__(
        self,
        schemas: Schemas,
        threads: Executor,
        config_of: Callable[[str], TopicConfig | None],
    ) -> None:
        self.refused = 0
        self._config_of = config_of
        self._schemas = schemas
        self._threads = threads
        self._validators: Remembered[_Compiled, Validator] = Remembered(VALIDATORS_MAX_BYTES)

    async def check_batch(self, partition: Partition, batch: Buffer) -> None:
        """Refuse a produced batch whose records do not fit; the first that does not is named.

        The partition's turn is held from here to the append: nobody overtakes one who waits for a
        schema.
        """
        header = check_produced(batch)
        if header.compression or len(batch) > TAKEN_APART_MAX_BYTES:
            loop = asyncio.get_running_loop()
            records = await loop.run_in_executor(self._threads, decode_records, batch)
        else:
            records = decode_records(batch)
        unfit = await self._find_unfit(partition.name.topic, partition.config, records)
        for index, refusal in unfit.items():
            raise UnfitRecord(str(refusal), index)

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
        parts = [
            _Part(name, mode, topic, strategy)
            for name, mode in (
                ("key", config.schema_validation_key),
                ("value", config.schema_validation_value),
            )
            if mode != OFF
        ]
        batch = _BatchCheck(await self._schemas.loaded(), self._schemas, self._validators)
        clock = asyncio.get_running_loop().time
        found: dict[int, UnfitRecord] = {}
        until = clock() + PORTION_SECONDS
        for index, record in enumerate(records):
            refusal = await self._refusal(batch, parts, record)
            if refusal is not None:
                found[index] = refusal
            if clock() >= until:
                await asyncio.sleep(0)
                until = clock() + PORTION_SECONDS
        self.refused += len(found)
        return found

    async def _refusal(
        self, batch: "_BatchCheck", parts: Sequence[_Part], record: NewRecord | Record
    ) -> UnfitRecord | None:
        # Held here as well: those of one record may be too large to be remembered together.
        compiled: dict[int, Validator] = {}
        while True:
            try:
                for part in parts:
                    batch.check(part, record, compiled)
                return None
            except _NotCompiled as missing:
                try:
                    compiled[missing.schema_id] = await self._compile(missing.schema_id)
                except UnfitRecord as refusal:
                    return refusal
            except UnfitRecord as refusal:
                return refusal
            except RegistryRefusal as error:
                return UnfitRecord(f"its schema was deleted meanwhile: {error}")

    async def _compile(self, schema_id: int) -> Validator:
        try:
            compiled = _compiled(self._schemas.catalogue.schema(schema_id))
            source = await self._schemas.compiled(schema_id)
        except RegistryRefusal as error:
            raise UnfitRecord(f"schema {schema_id} cannot be used for checks: {error}") from error
        loop = asyncio.get_running_loop()
        validator = await loop.run_in_executor(self._threads, _make_validator, source)
        size_bytes = len(source.text) + sum(len(text) for _, text in source.references)
        self._validators.put(compiled, validator, size_bytes=size_bytes)
        return validator


class _BatchCheck:
    """The check of one batch: what was found out about a schema holds for all its records."""

    def __init__(
        self, catalogue: Catalogue, schemas: Schemas, validators: Remembered[_Compiled, Validator]
    ) -> None:
        self._catalogue = catalogue
        self._schemas = schemas
        self._validators = validators
        self._accepted: dict[tuple[str, int], bool] = {}

    def check(
        self, part: _Part, record: NewRecord | Record, compiled: Mapping[int, Validator]
    ) -> None:
        """Raises `UnfitRecord`, or `_NotCompiled` when the check must wait for a schema."""
        data = record.key if part.name == "key" else record.value
        if data is None:
            return  # a tombstone, or a message without a key
        try:
            use = schema_use(part.name, data, record.headers)
        except ValueError as error:
            raise UnfitRecord(f"{part.name}: {error}") from None
        schema_id = self._plain_json(part) if use is None else self._named(part, use)
        if part.mode != CONTENT:
            return
        validator = compiled.get(schema_id) or self._validators.get(
            _compiled(self._catalogue.schema(schema_id))
        )
        if validator is None:
            raise _NotCompiled(schema_id)
        try:
            validator(data if use is None else use.payload)
        except InvalidContent as error:
            raise UnfitRecord(f"{part.name}: does not fit schema {schema_id}: {error}") from None

    def _plain_json(self, part: _Part) -> int:
        """The schema for a payload that names none."""
        if part.mode == CONTENT and part.strategy == "topic":
            latest = self._catalogue.latest(self._catalogue.resolve_alias(part.subject))
            if latest is None:
                raise UnfitRecord(
                    f"{part.name}: no schema is registered for subject {part.subject!r}, and "
                    f"topic {part.topic!r} takes only what fits one"
                )
            if self._catalogue.schema(latest.schema_id).identity.type == SchemaType.JSON:
                return latest.schema_id
        raise UnfitRecord(
            f"{part.name}: has no schema id; topic {part.topic!r} wants Confluent's prefix of 5 "
            f"bytes or the header __{part.name}_schema_id"
        )

    def _named(self, part: _Part, use: SchemaUse) -> int:
        catalogue = self._catalogue
        if use.guid is not None:
            schema_id = catalogue.find_guid(use.guid)
            if schema_id is None:
                raise UnfitRecord(f"{part.name}: there is no schema with GUID {use.guid}")
        else:
            schema_id = use.schema_id
        accepted = self._accepted.get((part.name, schema_id))
        if accepted is None:
            if schema_id not in catalogue.schemas:
                raise UnfitRecord(f"{part.name}: there is no schema with id {schema_id}")
            own = catalogue.resolve_alias(part.subject)
            accepted = part.accepts(self._schemas.subjects_of(schema_id), own)
            self._accepted[part.name, schema_id] = accepted
        if not accepted:
            raise UnfitRecord(
                f"{part.name}: schema {schema_id} is not registered for subject {part.subject!r} "
                f"(schema.validation.strategy is {part.strategy})"
            )
        return schema_id


def _make_validator(source: SchemaSource) -> Validator:
    """In a thread: libraries are loaded on first use, and large schemas take their time."""
    try:
        return make_validator(source)
    except InvalidSchema as error:
        reason = f"its schema cannot be used for checks: {error}"

        def refuse(_payload: bytes) -> None:
            raise InvalidContent(reason)

        return refuse
