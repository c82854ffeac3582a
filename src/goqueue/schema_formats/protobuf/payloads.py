"""Whether a payload is a message of its schema."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from goqueue.model.schemas.formats import InvalidContent, SchemaSource
from goqueue.model.schemas.message_indexes import read_message_indexes
from goqueue.schema_formats.protobuf.loading import load_descriptors

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.message import Message

_MAX_NAMED_FIELDS: Final = 5


class PayloadValidator:
    """Fields with unknown numbers pass, as for every reader: a newer writer may have set them.

    A known number with another type does not, though readers would take it for unknown. Text of
    proto3 has to be UTF-8, and what proto2 calls required has to be there.
    """

    def __init__(self, source: SchemaSource) -> None:
        self._source = source
        schema = load_descriptors(source)
        # The pool owns the descriptors that the classes below are made of.
        self._pool = schema.pool
        self._file = schema.pool.FindFileByName(schema.main.name)
        self._classes: dict[tuple[int, ...], list[type[Message]]] = {}

    def __reduce__(self) -> "tuple[type[PayloadValidator], tuple[SchemaSource]]":
        return PayloadValidator, (self._source,)

    def __call__(self, payload: bytes) -> None:
        payload = bytes(payload)
        try:
            indexes, start = read_message_indexes(payload)
        except ValueError as error:
            raise InvalidContent(str(error)) from None
        classes = self._classes.get(indexes)
        if classes is None:
            classes = self._classes_at(indexes)
        refusal = None
        for message_class in classes:
            refusal = _refusal(message_class, payload[start:])
            if refusal is None:
                return
        raise InvalidContent(refusal or _nowhere(indexes))

    def _classes_at(self, indexes: tuple[int, ...]) -> "list[type[Message]]":
        from google.protobuf.message_factory import GetMessageClass

        found = dict.fromkeys(_candidates(list(self._file.message_types_by_name.values()), indexes))
        if not found:
            raise InvalidContent(_nowhere(indexes))
        classes: list[type[Message]] = [GetMessageClass(descriptor) for descriptor in found]
        self._classes[indexes] = classes
        return classes


def _candidates(
    messages: "Sequence[Descriptor]", indexes: tuple[int, ...]
) -> "Iterator[Descriptor]":
    """Clients differ in whether the synthetic messages of map fields are counted: both pass."""
    for counted in (messages, [message for message in messages if not _is_entry(message)]):
        if indexes[0] < len(counted) and not _is_entry(counted[indexes[0]]):
            message = counted[indexes[0]]
            if len(indexes) == 1:
                yield message
            else:
                yield from _candidates(list(message.nested_types), indexes[1:])


def _is_entry(message: "Descriptor") -> bool:
    return message.GetOptions().map_entry


def _refusal(message_class: "type[Message]", content: bytes) -> str | None:
    from google.protobuf.message import DecodeError

    name = message_class.DESCRIPTOR.full_name
    try:
        message = message_class.FromString(content)
    except DecodeError as error:
        return f"the payload is no {name}: {error}"
    if not message.IsInitialized():
        missing: list[str] = cast(Any, message).FindInitializationErrors()[:_MAX_NAMED_FIELDS]
        return f"the payload is no complete {name}: required {', '.join(missing)} not set"
    size_bytes = message.ByteSize()
    message.DiscardUnknownFields()
    if message.ByteSize() == size_bytes:
        return None  # nothing unknown, at no depth
    misfit = _misfit(message_class.FromString(content))
    return f"the payload is no {name}: {misfit} has another type there" if misfit else None


def _misfit(message: "Message") -> str | None:
    """The first field that is declared, and yet unknown by the type that it came with."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    declared = message.DESCRIPTOR.fields_by_number
    unknown = UnknownFieldSet(message)
    for index in range(len(unknown)):
        field = declared.get(unknown[index].field_number)
        # Values that a closed enum does not have are kept as unknown too.
        if field is not None and field.enum_type is None:
            return f"field {field.full_name}"
    for field, value in message.ListFields():
        for part in _parts(field, value):
            misfit = _misfit(part)
            if misfit is not None:
                return misfit
    return None


def _parts(field: "FieldDescriptor", value: Any) -> "Iterable[Message]":
    message_type = field.message_type
    if message_type is None:
        return ()
    if not field.is_repeated:
        return (value,)
    if not message_type.GetOptions().map_entry:
        return cast("Iterable[Message]", value)
    is_message = message_type.fields_by_name["value"].message_type is not None
    return cast("Iterable[Message]", value.values()) if is_message else ()


def _nowhere(indexes: tuple[int, ...]) -> str:
    return f"the schema has no message at the payload's message indexes {list(indexes)}"
