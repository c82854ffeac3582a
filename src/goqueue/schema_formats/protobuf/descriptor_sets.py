"""What protoc writes, taken apart into the files that it holds."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from goqueue.model.schemas.formats import InvalidSchema

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto

# Field numbers in descriptor.proto, of which the places of things in a file are made.
_FILE_MESSAGES: Final = 4
_FILE_EXTENSIONS: Final = 7
_MESSAGE_FIELDS: Final = 2
_MESSAGE_NESTED: Final = 3
_MESSAGE_EXTENSIONS: Final = 6
_FIELD_JSON_NAME: Final = 10

_Path = tuple[int, ...]


def files_in(descriptor_set: bytes) -> list[bytes]:
    """Each file serialised, without places, and with the JSON names that its text gives only.

    protoc writes a JSON name for every field. Which of them the text has is told by their places.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.message import DecodeError

    try:
        files = FileDescriptorSet.FromString(descriptor_set).file
    except DecodeError:
        raise InvalidSchema("the schema's descriptor is nested too deeply to be read") from None
    for file in files:
        written = {
            tuple(location.path)
            for location in file.source_code_info.location
            if location.path and location.path[-1] == _FIELD_JSON_NAME
        }
        _clear(file.extension, (_FILE_EXTENSIONS,), written)
        for index, message in enumerate(file.message_type):
            _clear_in_message(message, (_FILE_MESSAGES, index), written)
        file.ClearField("source_code_info")
    return [file.SerializeToString() for file in files]


def _clear_in_message(message: "DescriptorProto", path: _Path, written: set[_Path]) -> None:
    _clear(message.field, (*path, _MESSAGE_FIELDS), written)
    _clear(message.extension, (*path, _MESSAGE_EXTENSIONS), written)
    for index, nested in enumerate(message.nested_type):
        _clear_in_message(nested, (*path, _MESSAGE_NESTED, index), written)


def _clear(fields: "Iterable[FieldDescriptorProto]", path: _Path, written: set[_Path]) -> None:
    for index, field in enumerate(fields):
        if (*path, index, _FIELD_JSON_NAME) not in written:
            field.ClearField("json_name")
