"""From a schema as sent, .proto text or base64 of a descriptor, to descriptors."""

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, cast

from goqueue.model.schemas.formats import InvalidSchema, SchemaSource
from goqueue.schema_formats.protobuf.known_types import is_known
from goqueue.schema_formats.protobuf.options import quoted
from goqueue.schema_formats.protobuf.printer import print_file
from goqueue.schema_formats.protobuf.protoc import (
    check_size,
    compile_files,
    compile_schema,
    free_name,
)

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

# Neither braces nor quotes nor semicolons: no .proto text looks like this.
_BASE64: Final = re.compile(r"[A-Za-z0-9+/\s]+=*\s*")
# Sets of known files that schemas import are few; each costs some milliseconds of protoc.
_KNOWN_SETS_KEPT: Final = 64
# The newest edition whose files print and parse to the same: 2024 strips options while compiling.
_NEWEST_EDITION: Final = 1000
_NEWEST_EDITION_NAME: Final = "2023"
_DESCRIPTOR_PROTO: Final = "google/protobuf/descriptor.proto"


@dataclass(frozen=True, slots=True)
class LoadedSchema:
    """All files of a schema, in order of need and the schema's own last, serialised.

    `left_out` is what its text has of options and imports that nobody declares.
    """

    files: tuple[bytes, ...]
    pool: "DescriptorPool"
    main: "FileDescriptorProto"
    left_out: tuple[str, ...] = ()

    def described(self) -> "list[FileDescriptorProto]":
        """The files, with custom options that the schema's own files define."""
        from google.protobuf.message import DecodeError

        file_class = _file_class(self.files, self.pool)
        try:
            return [file_class.FromString(file) for file in self.files]
        except DecodeError:
            raise InvalidSchema("an option's value is not of the type that it has") from None


def load(source: SchemaSource) -> LoadedSchema:
    """Through protoc, whatever the schema was sent as; raises `InvalidSchema`."""
    text, references = _texts(source)
    compiled = compile_schema(text, references)
    return replace(_loaded(compiled.files), left_out=compiled.left_out)


def load_descriptors(source: SchemaSource) -> LoadedSchema:
    """As `load`, but a schema sent as descriptors in all its parts is taken without protoc."""
    main = _descriptor_in(source.text)
    references = {
        reference.name: _descriptor_in(reference.text)
        for reference in source.references
        if not is_known(reference.name)
    }
    if main is None or None in references.values():
        return load(source)
    main.name = free_name(references)
    described = []
    for name, file in references.items():
        assert file is not None
        file.name = name
        described.append(file)
    imported = {name for file in [*described, main] for name in file.dependency}
    known = _known_files(tuple(sorted(filter(is_known, imported))))
    return _loaded([*known, *(file.SerializeToString() for file in [*described, main])])


def _texts(source: SchemaSource) -> tuple[str, dict[str, str]]:
    references: dict[str, str] = {}
    for reference in source.references:
        if reference.name not in references and not is_known(reference.name):
            references[reference.name] = _as_text(reference.text, references)
    return _as_text(source.text, references), references


def _as_text(sent: str, references: dict[str, str]) -> str:
    sent = sent.removeprefix("\ufeff")
    if not sent.strip():
        raise InvalidSchema("the schema is empty: send .proto text, or a descriptor as base64")
    file = _descriptor_in(sent)
    if file is None:
        return sent
    needed: list[bytes] = []
    if file.dependency:
        imports = "".join(f"import {quoted(name)};\n" for name in file.dependency)
        needed = compile_files(f'syntax = "proto3";\n{imports}', references)[:-1]
    file.name = free_name(references)
    return print_file(_loaded([*needed, file.SerializeToString()]).described()[-1])


def _descriptor_in(sent: str) -> "FileDescriptorProto | None":
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    check_size(len(sent))
    if not _BASE64.fullmatch(sent):
        return None
    try:
        file = FileDescriptorProto.FromString(base64.b64decode("".join(sent.split())))
    except (binascii.Error, DecodeError):
        raise InvalidSchema(
            "neither .proto text nor a serialised FileDescriptorProto as base64"
        ) from None
    if not file.syntax:
        file.ClearField("syntax")  # set to nothing, which pools refuse, is proto2 as well
    return file


@lru_cache(maxsize=_KNOWN_SETS_KEPT)
def _known_files(names: tuple[str, ...]) -> tuple[bytes, ...]:
    if not names:
        return ()
    imports = "".join(f"import {quoted(name)};\n" for name in names)
    return tuple(compile_files(f'syntax = "proto3";\n{imports}', {})[:-1])


def _loaded(files: Sequence[bytes]) -> LoadedSchema:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import DecodeError

    pool = DescriptorPool()
    try:
        for file in files:
            pool.AddSerializedFile(file)
        main = FileDescriptorProto.FromString(files[-1])
    except TypeError as error:
        reason = str(error).removeprefix("Couldn't build proto file into descriptor pool: ")
        raise InvalidSchema(f"the descriptor is not valid: {reason}") from None
    except DecodeError:
        raise InvalidSchema("the schema's descriptor is nested too deeply to be read") from None
    if main.edition > _NEWEST_EDITION:
        raise InvalidSchema(f"editions after {_NEWEST_EDITION_NAME} are not supported")
    return LoadedSchema(tuple(files), pool, main)


def _file_class(files: Sequence[bytes], pool: "DescriptorPool") -> "type[FileDescriptorProto]":
    """Options that a schema defines are seen by classes of the pool that the schema is in."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message_factory import GetMessageClass

    if not any(_DESCRIPTOR_PROTO.encode() in file for file in files):
        return FileDescriptorProto
    try:
        descriptor = pool.FindMessageTypeByName("google.protobuf.FileDescriptorProto")
    except KeyError:
        return FileDescriptorProto
    return cast("type[FileDescriptorProto]", GetMessageClass(descriptor))
