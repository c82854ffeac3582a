"""Protobuf schemas: protoc parses, one printer writes, descriptors compare and validate.

Nothing is kept but caches of known files; each schema has a descriptor pool of its own. protoc
holds the interpreter's lock while it runs, so a broker calls `parse` and `incompatibilities` in a
process of their own; `make_validator` does without protoc when it is given `serialized` schemas.
"""

import base64
from hashlib import sha256
from typing import TYPE_CHECKING

from goqueue.model.schemas.formats import (
    Incompatibility,
    ParsedSchema,
    SchemaSource,
    Validator,
)
from goqueue.schema_formats.protobuf.as_written import as_written
from goqueue.schema_formats.protobuf.differences import differences
from goqueue.schema_formats.protobuf.known_types import is_known
from goqueue.schema_formats.protobuf.loading import load
from goqueue.schema_formats.protobuf.message_types import types_of
from goqueue.schema_formats.protobuf.payloads import PayloadValidator
from goqueue.schema_formats.protobuf.printer import print_file

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

__all__ = ["incompatibilities", "make_validator", "parse", "serialized"]


def parse(source: SchemaSource, *, normalize: bool = False) -> ParsedSchema:
    """.proto text or base64 of a serialised FileDescriptorProto; raises `InvalidSchema`."""
    schema = load(source)
    described = schema.described()
    printed = print_file(described[-1], normalize=normalize)
    fingerprint = sha256(printed.encode())
    sent = {reference.name for reference in source.references}
    for file in described[:-1]:
        if file.name in sent and not is_known(file.name):
            fingerprint.update(f"\0{file.name}\0{print_file(file, normalize=normalize)}".encode())
    main = schema.main
    record_name = None
    if main.message_type:
        record_name = ".".join(filter(None, (main.package, main.message_type[0].name)))
    if schema.left_out:
        # A printer of descriptors does not know these: the text is kept as it was sent.
        fingerprint.update("\0".join(("", *sorted(schema.left_out))).encode())
        return ParsedSchema(source.text.strip(), fingerprint.hexdigest(), record_name)
    canonical = printed if normalize else _as_written(source, printed, main)
    return ParsedSchema(canonical, fingerprint.hexdigest(), record_name)


def _as_written(source: SchemaSource, printed: str, main: "FileDescriptorProto") -> str:
    text = as_written(printed, source.text)
    if text == printed or load(source._replace(text=text)).main == main:
        return text
    return printed


def incompatibilities(reader: SchemaSource, writer: SchemaSource) -> list[Incompatibility]:
    """Why data written with `writer` cannot be read with `reader`, as Confluent's registry says."""
    return differences(types_of(load(writer)), types_of(load(reader)))


def make_validator(source: SchemaSource) -> Validator:
    return PayloadValidator(source)


def serialized(source: SchemaSource) -> str:
    """The schema's FileDescriptorProto as base64: what `?format=serialized` answers."""
    main = load(source).main
    main.name = "default"
    return base64.b64encode(main.SerializeToString()).decode("ascii")
