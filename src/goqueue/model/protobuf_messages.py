"""Classes of protobuf messages, made of tables of fields: no generated files, no compiler."""

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "bytes": _Field.TYPE_BYTES,
    "string": _Field.TYPE_STRING,
    "int64": _Field.TYPE_INT64,
    "uint64": _Field.TYPE_UINT64,
    "fixed64": _Field.TYPE_FIXED64,
    "sfixed64": _Field.TYPE_SFIXED64,
    "double": _Field.TYPE_DOUBLE,
    # Enumerations travel as numbers, and are read and written as such here.
    "int32": _Field.TYPE_INT32,
    "bool": _Field.TYPE_BOOL,
}

# Each message: field name to number and type. `*` is repeated, `?` is one of several.
MessageTable = Mapping[str, Mapping[str, tuple[int, str]]]


def message_classes(package: str, messages: MessageTable) -> dict[str, Any]:
    """By the names of the messages. What is not in the table is skipped when it is read."""
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package.replace('.', '/')}.proto", package=package, syntax="proto3"
    )
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field_name, (number, kind) in fields.items():
            _add_field(package, message, field_name, number, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in messages
    }


def _add_field(
    package: str, message: descriptor_pb2.DescriptorProto, name: str, number: int, kind: str
) -> None:
    field = message.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
    if kind.startswith("*"):
        field.label = _Field.LABEL_REPEATED
    elif kind.startswith("?"):
        if not message.oneof_decl:
            message.oneof_decl.add(name="chosen")
        field.oneof_index = 0
    kind = kind.lstrip("*?")
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{package}.{kind}"
