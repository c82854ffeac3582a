"""How the registry is stored: five kinds of keys in a log where the last value of a key wins.

    schema  (id)              -> type, text, fingerprint, references, metadata, rules
    version (subject, number) -> schema id, whether it is deleted, when it was registered
    config  (subject or none) -> what is set there
    mode    (subject or none) -> the mode
    ids     ()                -> the highest id ever given; written when a schema goes for good

No record depends on another one's being there, so their order does not matter.
"""

from typing import Final, NamedTuple

import msgspec

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


class VersionKey(msgspec.Struct, frozen=True, array_like=True, tag="version"):
    subject: str
    number: int


class ConfigKey(msgspec.Struct, frozen=True, array_like=True, tag="config"):
    subject: str | None


class ModeKey(msgspec.Struct, frozen=True, array_like=True, tag="mode"):
    subject: str | None


class IdsKey(msgspec.Struct, frozen=True, array_like=True, tag="ids"):
    pass


Key = SchemaKey | VersionKey | ConfigKey | ModeKey | IdsKey


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
    return StateRecord(_ENCODE(SchemaKey(schema.id)), _ENCODE(value))


def schema_tombstone(schema_id: int) -> StateRecord:
    return StateRecord(_ENCODE(SchemaKey(schema_id)), None)


def version_record(version: Version) -> StateRecord:
    value = VersionValue(version.schema_id, version.is_deleted, version.registered_ms)
    return StateRecord(_ENCODE(VersionKey(version.subject, version.number)), _ENCODE(value))


def version_tombstone(version: Version) -> StateRecord:
    return StateRecord(_ENCODE(VersionKey(version.subject, version.number)), None)


def config_record(subject: str | None, config: SubjectConfig | None) -> StateRecord:
    return StateRecord(_ENCODE(ConfigKey(subject)), None if config is None else _ENCODE(config))


def mode_record(subject: str | None, mode: Mode | None) -> StateRecord:
    return StateRecord(_ENCODE(ModeKey(subject)), None if mode is None else _ENCODE(mode))


def ids_record(highest_id: int) -> StateRecord:
    return StateRecord(_ENCODE(IdsKey()), _ENCODE(highest_id))


class Decoded(NamedTuple):
    key: Key
    value: Value | None


def decode(record: StateRecord) -> Decoded:
    key: Key = _KEY.decode(record.key)
    return Decoded(key, None if record.value is None else _value(key, record.value))


def _value(key: Key, data: bytes) -> Value:
    match key:
        case SchemaKey(id):
            value = _SCHEMA.decode(data)
            identity = SchemaIdentity(
                value.type, value.fingerprint, value.references, value.metadata, value.rule_set
            )
            return StoredSchema(id, value.text, identity)
        case VersionKey(subject, number):
            found = _VERSION.decode(data)
            return Version(subject, number, found.schema_id, found.is_deleted, found.registered_ms)
        case ConfigKey():
            return _CONFIG.decode(data)
        case ModeKey():
            return _MODE.decode(data)
        case IdsKey():
            return _IDS.decode(data)
