"""What of a schema decides whether data can be read: messages, fields, kinds and labels."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NamedTuple

from goqueue.schema_formats.protobuf.loading import LoadedSchema
from goqueue.schema_formats.protobuf.printer import SCALAR_NAMES

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.descriptor_pb2 import DescriptorProto


class Kind(Enum):
    SCALAR = auto()
    MESSAGE = auto()
    # A message with marks around it instead of its length before it.
    GROUP = auto()
    MAP = auto()


class Label(Enum):
    """`IMPLICIT`: none is written, as proto3 and editions have it, and in a oneof."""

    IMPLICIT = "singular"
    OPTIONAL = "optional"
    REQUIRED = "required"
    REPEATED = "repeated"


# Scalars that are the same on the wire, up to their range:
# protobuf.dev/programming-guides/proto3, "Updating A Message Type". An enum is a number there.
_WIRE_GROUPS: Final = {
    "number": ("int32", "int64", "uint32", "uint64", "bool", "enum"),
    "zigzag number": ("sint32", "sint64"),
    "text": ("string", "bytes"),
    "fixed32": ("fixed32", "sfixed32"),
    "fixed64": ("fixed64", "sfixed64"),
    "float": ("float",),
    "double": ("double",),
}
TEXT: Final = "text"
_WIRE_GROUP: Final = {name: group for group, names in _WIRE_GROUPS.items() for name in names}


class FieldType(NamedTuple):
    """`name` is the scalar's or the message's full name; a map has the types of its entries."""

    kind: Kind
    name: str
    wire_group: str = ""
    entry: "tuple[FieldType, FieldType] | None" = None

    def __str__(self) -> str:
        if self.entry is not None:
            return f"map<{self.entry[0]}, {self.entry[1]}>"
        return self.name


class Field(NamedTuple):
    number: int
    label: Label
    type: FieldType
    oneof: str | None


@dataclass(frozen=True, slots=True)
class MessageType:
    """`path` is its name within its package, `is_own` whether no reference brought it."""

    path: tuple[str, ...]
    is_own: bool
    fields: dict[int, Field]
    nested: "dict[str, MessageType]"
    is_group: bool


@dataclass(frozen=True, slots=True)
class SchemaTypes:
    """`messages` are the file's own at its top, `by_name` all that can be reached."""

    package: str
    messages: dict[str, MessageType]
    by_name: dict[str, MessageType]


def types_of(schema: LoadedSchema) -> SchemaTypes:
    by_name: dict[str, MessageType] = {}
    messages: dict[str, MessageType] = {}
    described = schema.described()
    for file in described:
        is_own = file is described[-1]
        reader = _Reader(schema, by_name, file.package, is_own=is_own)
        messages = reader.messages((), file.message_type, groups=frozenset())
    return SchemaTypes(schema.main.package, messages, by_name)


class _Reader:
    def __init__(
        self, schema: LoadedSchema, by_name: dict[str, MessageType], package: str, *, is_own: bool
    ) -> None:
        self._pool = schema.pool
        self._by_name = by_name
        self._package = (package,) if package else ()
        self._is_own = is_own

    def messages(
        self,
        scope: tuple[str, ...],
        described: Iterable["DescriptorProto"],
        *,
        groups: frozenset[str],
    ) -> dict[str, MessageType]:
        found = {}
        for message in described:
            if not message.options.map_entry:
                path = (*scope, message.name)
                found[message.name] = self._message(path, message, is_group=message.name in groups)
        return found

    def _message(
        self, path: tuple[str, ...], message: "DescriptorProto", *, is_group: bool
    ) -> MessageType:
        full_name = ".".join((*self._package, *path))
        # The pool's view knows what editions and their features make of a field.
        resolved: Descriptor = self._pool.FindMessageTypeByName(full_name)
        fields = {}
        groups = set()
        for field in message.field:
            in_oneof = field.HasField("oneof_index") and not field.proto3_optional
            by_pool = resolved.fields_by_number[field.number]
            # Without presence: proto3, or an edition that takes after it.
            is_labelled = by_pool.has_presence and not in_oneof
            fields[field.number] = Field(
                field.number,
                _label(by_pool, is_labelled=is_labelled),
                _type(by_pool),
                message.oneof_decl[field.oneof_index].name if in_oneof else None,
            )
            if field.type == by_pool.TYPE_GROUP:
                groups.add(field.type_name.rpartition(".")[2])
        found = MessageType(
            path,
            self._is_own,
            fields,
            self.messages(path, message.nested_type, groups=frozenset(groups)),
            is_group,
        )
        self._by_name[full_name] = found
        return found


def _label(field: "FieldDescriptor", *, is_labelled: bool) -> Label:
    if field.is_repeated:
        return Label.REPEATED
    if field.is_required:
        return Label.REQUIRED
    return Label.OPTIONAL if is_labelled else Label.IMPLICIT


def _type(field: "FieldDescriptor") -> FieldType:
    message = field.message_type
    if message is None:
        if field.enum_type is not None:
            return FieldType(Kind.SCALAR, field.enum_type.full_name, _WIRE_GROUP["enum"])
        name = SCALAR_NAMES[field.type]
        return FieldType(Kind.SCALAR, name, _WIRE_GROUP[name])
    if message.GetOptions().map_entry:
        key, value = (_type(message.fields_by_number[number]) for number in (1, 2))
        return FieldType(Kind.MAP, message.full_name, entry=(key, value))
    kind = Kind.GROUP if field.type == field.TYPE_GROUP else Kind.MESSAGE
    return FieldType(kind, message.full_name)
