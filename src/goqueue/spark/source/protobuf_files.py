"""Protobuf schemas of the registry as descriptors."""

import base64
import binascii
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Final

from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from goqueue.client.registry import RegisteredSchema
from goqueue.spark.option_names import InvalidOption

# Its own name is not known, and no import can mean it.
_MAIN: Final = "goqueue.registered.schema"
# Files that Python has as modules: a/b.proto -> a.b_pb2.
_MODULES: Final = ("google/protobuf/", "google/type/")
# Confluent's own types, which its registry knows without a reference.
_CONFLUENT: Final = {
    "Decimal": (
        ("value", FieldDescriptorProto.TYPE_BYTES),
        ("precision", FieldDescriptorProto.TYPE_UINT32),
        ("scale", FieldDescriptorProto.TYPE_INT32),
    ),
    "Variant": (
        ("metadata", FieldDescriptorProto.TYPE_BYTES),
        ("value", FieldDescriptorProto.TYPE_BYTES),
    ),
}


def protobuf_file(schema: RegisteredSchema) -> FileDescriptor:
    """The schema's own file, with all that it refers to behind it."""
    described = {name: _described(name, text) for name, text in schema.references.items()}
    described[_MAIN] = _described(_MAIN, schema.text)
    pool = DescriptorPool()
    added: set[str] = set()
    for file in described.values():
        _add(pool, file, described, added)
    try:
        return pool.FindFileByName(_MAIN)
    except (KeyError, TypeError) as error:
        raise InvalidOption(f"the Protobuf schema cannot be put together: {error}") from None


def named_message(file: FileDescriptor, name: str) -> Descriptor:
    """By its name, with or without the package; the first of the file if no name is given."""
    messages = list(file.message_types_by_name.values())
    if not messages:
        raise InvalidOption("the Protobuf schema has no message")
    if not name:
        return messages[0]
    found = {each.full_name: each for each in _with_nested(messages)}
    full = f"{file.package}.{name}" if file.package else name
    if name not in found and full not in found:
        raise InvalidOption(
            f"the Protobuf schema has no message {name!r}; there are {', '.join(found)}"
        )
    return found.get(name) or found[full]


def messages_at(file: FileDescriptor, indexes: Sequence[int]) -> set[str]:
    """Full names of what stands at a payload's message indexes.

    Clients differ in whether they count the messages that maps are made of: there may be two.
    """
    found: list[Sequence[Descriptor]] = [list(file.message_types_by_name.values())]
    for number, index in enumerate(indexes):
        at = [each[index] for level in found for each in _counted(level) if index < len(each)]
        if number == len(indexes) - 1:
            return {each.full_name for each in at}
        found = [list(each.nested_types) for each in at]
    return set()


def _counted(messages: Sequence[Descriptor]) -> Iterator[Sequence[Descriptor]]:
    yield messages
    yield [each for each in messages if not each.GetOptions().map_entry]


def _with_nested(messages: Sequence[Descriptor]) -> Iterator[Descriptor]:
    for each in messages:
        if not each.GetOptions().map_entry:
            yield each
            yield from _with_nested(list(each.nested_types))


def _described(name: str, text: str) -> FileDescriptorProto:
    try:
        file = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, DecodeError):
        raise InvalidOption(
            "the registry does not give Protobuf schemas as descriptors (format=serialized), which "
            "are needed here; read the values as binary"
        ) from None
    file.name = name
    if not file.syntax:
        file.ClearField("syntax")  # set to nothing, which pools refuse
    return file


def _add(
    pool: DescriptorPool,
    file: FileDescriptorProto,
    described: dict[str, FileDescriptorProto],
    added: set[str],
) -> None:
    if file.name in added:
        return
    added.add(file.name)
    for name in list(file.dependency):
        known = described.get(name) or _known(name)
        if known is None:
            # Only options are declared there, or the pool will say what is missing.
            _drop_dependency(file, name)
        else:
            _add(pool, known, described, added)
    try:
        pool.AddSerializedFile(file.SerializeToString())
    except TypeError as error:
        raise InvalidOption(f"the Protobuf schema cannot be put together: {error}") from None


def _drop_dependency(file: FileDescriptorProto, name: str) -> None:
    kept = [each for each in file.dependency if each != name]
    public = {file.dependency[number] for number in file.public_dependency}
    weak = {file.dependency[number] for number in file.weak_dependency}
    file.ClearField("dependency")
    file.ClearField("public_dependency")
    file.ClearField("weak_dependency")
    file.dependency.extend(kept)
    file.public_dependency.extend(n for n, each in enumerate(kept) if each in public)
    file.weak_dependency.extend(n for n, each in enumerate(kept) if each in weak)


def _known(name: str) -> FileDescriptorProto | None:
    if name.startswith("confluent/type"):
        return _confluent(name)
    if not name.startswith(_MODULES) or not name.endswith(".proto"):
        return None
    try:
        module = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    except ImportError:
        return None
    return FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


def _confluent(name: str) -> FileDescriptorProto | None:
    message = name.removesuffix(".proto").rpartition("/")[2].capitalize()
    if message not in _CONFLUENT:
        return None
    fields = [
        FieldDescriptorProto(
            name=each, number=number, type=kind, label=FieldDescriptorProto.LABEL_OPTIONAL
        )
        for number, (each, kind) in enumerate(_CONFLUENT[message], start=1)
    ]
    return FileDescriptorProto(
        name=name,
        package="confluent.type",
        syntax="proto3",
        message_type=[DescriptorProto(name=message, field=fields)],
    )
