"""How the registry is stored: seven kinds of keys in a log where the last value of a key wins.

    schema    (id)              -> type, text, fingerprint, references, metadata, rules
    schema-in (context, id)     -> the same, of a schema that is not in the default context
    version   (subject, number) -> schema id, whether it is deleted, when it was registered
    config    (scope or none)   -> what is set for a subject, or for a context between colons
    mode      (scope or none)   -> the mode
    ids       ()                -> the highest id ever given; written when a schema goes for good
    context   (name)            -> the same, of another context; written with its first schema, too

Subjects have their context in front, unless it is the default one. No record depends on another
one's being there, so their order does not matter.
"""

from typing import Final, NamedTuple

import msgspec

from goqueue.model.schemas.contexts import DEFAULT_CONTEXT, ContextId
from goqueue.model.schemas.messages import (
    Mode,
    Reference,
    SchemaIdentity,
    StoredSchema,
    SubjectConfig,
    Version,
)
from goqueue.state.machine import StateRecord


class SchemaKey(msgspec.Struct, frozen=True, array_like=True, tag="schema"):
    id: int

    @property
    def context_id(self) -> ContextId:
        return ContextId(DEFAULT_CONTEXT, self.id)


class ContextSchemaKey(msgspec.Struct, frozen=True, array_like=True, tag="schema-in"):
    context: str
    id: int

    @property
    def context_id(self) -> ContextId:
        return ContextId(self.context, self.id)


class VersionKey(msgspec.Struct, frozen=True, array_like=True, tag="version"):
    subject: str
    number: int


class ConfigKey(msgspec.Struct, frozen=True, array_like=True, tag="config"):
    subject: str | None


class ModeKey(msgspec.Struct, frozen=True, array_like=True, tag="mode"):
    subject: str | None


class IdsKey(msgspec.Struct, frozen=True, array_like=True, tag="ids"):
    @property
    def context(self) -> str:
        return DEFAULT_CONTEXT


class ContextKey(msgspec.Struct, frozen=True, array_like=True, tag="context"):
    context: str


Key = SchemaKey | ContextSchemaKey | VersionKey | ConfigKey | ModeKey | IdsKey | ContextKey


class SchemaValue(msgspec.Struct, frozen=True, array_like=True):
    type: str
    text: str
    fingerprint: str
    references: tuple[Reference, ...] = ()
    metadata: bytes = b""
    rule_set: bytes = b""


class VersionValue(msgspec.Struct, frozen=True, array_like=True):
    schema_id: int
    is_deleted: bool
    registered_ms: int


Value = StoredSchema | Version | SubjectConfig | Mode | int

_ENCODE: Final = msgspec.msgpack.Encoder().encode
_KEY: Final = msgspec.msgpack.Decoder(Key)
_SCHEMA: Final = msgspec.msgpack.Decoder(SchemaValue)
_VERSION: Final = msgspec.msgpack.Decoder(VersionValue)
_CONFIG: Final = msgspec.msgpack.Decoder(SubjectConfig)
_MODE: Final = msgspec.msgpack.Decoder(Mode)
_IDS: Final = msgspec.msgpack.Decoder(int)


def schema_record(schema: StoredSchema) -> StateRecord:
    kind, fingerprint, references, metadata, rule_set = schema.identity
    value = SchemaValue(kind, schema.text, fingerprint, references, metadata, rule_set)
    return StateRecord(_schema_key(schema.context_id), _ENCODE(value))


def schema_tombstone(context_id: ContextId) -> StateRecord:
    return StateRecord(_schema_key(context_id), None)


def _schema_key(context_id: ContextId) -> bytes:
    context, schema_id = context_id
    if context == DEFAULT_CONTEXT:
        return _ENCODE(SchemaKey(schema_id))
    return _ENCODE(ContextSchemaKey(context, schema_id))


def version_record(version: Version) -> StateRecord:
    value = VersionValue(version.schema_id, version.is_deleted, version.registered_ms)
    return StateRecord(_ENCODE(VersionKey(version.subject, version.number)), _ENCODE(value))


def version_tombstone(version: Version) -> StateRecord:
    return StateRecord(_ENCODE(VersionKey(version.subject, version.number)), None)


def config_record(subject: str | None, config: SubjectConfig | None) -> StateRecord:
    return StateRecord(_ENCODE(ConfigKey(subject)), None if config is None else _ENCODE(config))


def mode_record(subject: str | None, mode: Mode | None) -> StateRecord:
    return StateRecord(_ENCODE(ModeKey(subject)), None if mode is None else _ENCODE(mode))


def ids_record(context: str, highest_id: int) -> StateRecord:
    key = IdsKey() if context == DEFAULT_CONTEXT else ContextKey(context)
    return StateRecord(_ENCODE(key), _ENCODE(highest_id))


def context_tombstone(context: str) -> StateRecord:
    return StateRecord(_ENCODE(ContextKey(context)), None)


class Decoded(NamedTuple):
    key: Key
    value: Value | None


def decode(record: StateRecord) -> Decoded:
    key: Key = _KEY.decode(record.key)
    return Decoded(key, None if record.value is None else _value(key, record.value))


def _value(key: Key, data: bytes) -> Value:
    match key:
        case SchemaKey() | ContextSchemaKey():
            return _schema(key.context_id, data)
        case VersionKey(subject, number):
            found = _VERSION.decode(data)
            return Version(subject, number, found.schema_id, found.is_deleted, found.registered_ms)
        case ConfigKey():
            return _CONFIG.decode(data)
        case ModeKey():
            return _MODE.decode(data)
        case IdsKey() | ContextKey():
            return _IDS.decode(data)


def _schema(context_id: ContextId, data: bytes) -> StoredSchema:
    value = _SCHEMA.decode(data)
    identity = SchemaIdentity(
        value.type, value.fingerprint, value.references, value.metadata, value.rule_set
    )
    return StoredSchema(context_id.id, value.text, identity, context_id.context)
