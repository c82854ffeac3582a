"""Requests from bytes: a reader is compiled once per message and version.

The result has the fields of the newest version served; what the client's version lacks has its
default. Nothing is reserved or built on the word of a length that the bytes cannot back.
"""

import struct
from collections import namedtuple
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final, NamedTuple

from goqueue.doors.kafka.wire.fields import FIXED, Field, as_read, fields_of

Read = Callable[[memoryview, int], tuple[Any, int]]
# The same in steps, one for each element of an array.
ReadStepwise = Callable[[memoryview, int], Generator[None, None, tuple[Any, int]]]

# What a message may have where nobody says otherwise: more elements than any sane one has.
MAX_ELEMENTS: Final = 1_000_000
# Tagged fields of a request's header; Kafka has none so far.
HEADER_MAX_TAGS: Final = 16
# Kafka's own limit for strings, from the two-byte length of the older encoding.
STRING_MAX_BYTES: Final = 0x7FFF
# KIP-893: a signed byte says whether a structure that may be null follows; -1, if not.
_NO_STRUCTURE: Final = 0xFF

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
# What readers raise over bytes that are not a message.
_BAD_BYTES: Final = (struct.error, IndexError, ValueError, OverflowError)


class Malformed(Exception):
    """Bytes that are not the message they claim to be."""


class TooManyElements(Malformed):
    """More elements in its arrays than a message may have."""


class _Elements:
    """How many elements the message that is being read may still have, over all its arrays.

    A message, or a step of one, is read without waiting, so that there is one at a time.
    """

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = 0

    def take(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise TooManyElements


_elements: Final = _Elements()


# A message, and how many elements its arrays have together, with tagged fields.
Decoded = tuple[Any, int]


def decode(
    reader: Read, buffer: memoryview, position: int, max_elements: int = MAX_ELEMENTS
) -> Decoded:
    """Read one message.

    Bytes after it are ignored, as Kafka ignores them: librdkafka's request for all topics has three
    too many (its empty topic list is four bytes long where one is meant).
    """
    _elements.left = max_elements
    try:
        message, _ = reader(buffer, position)
    except TooManyElements:
        raise TooManyElements(f"more than {max_elements} elements") from None
    except _BAD_BYTES as error:
        raise Malformed(str(error)) from error
    return message, max_elements - _elements.left


def decode_stepwise(
    reader: ReadStepwise, buffer: memoryview, position: int, max_elements: int = MAX_ELEMENTS
) -> Generator[None, None, Decoded]:
    """As `decode`, in as many steps as the message has elements. Other messages may be read between
    two steps."""
    left = max_elements
    steps = reader(buffer, position)
    try:
        while True:
            _elements.left = left
            next(steps)
            left = _elements.left
            yield
    except StopIteration as done:
        message, _ = done.value
    except TooManyElements:
        raise TooManyElements(f"more than {max_elements} elements") from None
    except _BAD_BYTES as error:
        raise Malformed(str(error)) from error
    return message, max_elements - _elements.left


class _Layout(NamedTuple):
    """What the readers of one entity have in common."""

    make: Callable[[list[Any]], Any]
    plain: list[Field]
    newest_fields: dict[str, Field]
    # Of fields that follow the plain ones: the defaults, and how tagged ones are read.
    rest: list[Any]
    tag_readers: dict[int | None, tuple[int, Read]]
    flexible: bool

    def finish(self, values: list[Any], buffer: memoryview, position: int) -> tuple[Any, int]:
        """The entity, with its tagged fields."""
        count, position = read_uvarint(buffer, position)
        _elements.take(count)
        extra = self.rest.copy()
        position = _read_tags(buffer, position, count, self.tag_readers, extra)
        return self.make(values + extra), position


def _layout(entity: Any, newest: Any) -> _Layout:
    fields = as_read(entity)
    flexible = bool(entity.__flexible__)
    newest_fields = {field.name: field for field in fields_of(newest)} if newest else {}
    plain = [field for field in fields if field.tag is None]
    tagged = [field for field in fields if field.tag is not None]
    absent = [
        field for name, field in newest_fields.items() if name not in {f.name for f in fields}
    ]
    names = [field.name for field in (*fields, *absent)]
    make = partial(tuple.__new__, shape(entity.__name__, tuple(names)))
    rest = [field.default for field in (*tagged, *absent)]
    tag_readers = {
        field.tag: (index, _field_reader(field, newest_fields.get(field.name), flexible=True))
        for index, field in enumerate(tagged)
    }
    return _Layout(make, plain, newest_fields, rest, tag_readers, flexible)


def compile_reader(entity: Any, newest: Any) -> Read:
    """A reader for `entity` whose result also has the fields that only `newest` has."""
    layout = _layout(entity, newest)
    make, rest, flexible, finish = layout.make, layout.rest, layout.flexible, layout.finish
    steps = _read_steps(layout.plain, layout.newest_fields, flexible=flexible)

    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        values: list[Any] = []
        for fixed, convert, one in steps:
            if fixed is not None:
                numbers = fixed.unpack_from(buffer, position)
                position += fixed.size
                values += convert(numbers) if convert else numbers
            else:
                value, position = one(buffer, position)
                values.append(value)
        if not flexible:
            return make(values + rest), position
        if buffer[position] == 0:
            return make(values + rest), position + 1
        return finish(values, buffer, position)

    return read


def compile_stepwise_reader(entity: Any, newest: Any) -> ReadStepwise:
    """For messages of very many elements, which take long to read. An array of numbers is one
    step, for it is quick. So are tagged fields: no request has an array in one."""
    layout = _layout(entity, newest)
    flexible = layout.flexible
    readers = [
        (
            _field_reader(field, layout.newest_fields.get(field.name), flexible=flexible),
            _stepwise_field_reader(field, layout.newest_fields.get(field.name), flexible=flexible),
        )
        for field in layout.plain
    ]

    def read(buffer: memoryview, position: int) -> Generator[None, None, tuple[Any, int]]:
        values: list[Any] = []
        for whole, stepwise in readers:
            if stepwise is None:
                value, position = whole(buffer, position)
            else:
                value, position = yield from stepwise(buffer, position)
            values.append(value)
        if not flexible:
            return layout.make(values + layout.rest), position
        return layout.finish(values, buffer, position)

    return read


def _stepwise_field_reader(
    field: Field, newest: Field | None, *, flexible: bool
) -> ReadStepwise | None:
    """None for what is read at once."""
    if not _takes_steps(field):
        return None
    if field.is_array:
        return _stepwise_array_reader(field, newest, flexible=flexible)
    inner = compile_stepwise_reader(field.entity, newest.entity if newest else None)
    return _stepwise_nullable_reader(inner) if field.is_nullable else inner


def _stepwise_nullable_reader(inner: ReadStepwise) -> ReadStepwise:
    def read(buffer: memoryview, position: int) -> Generator[None, None, tuple[Any, int]]:
        if buffer[position] == _NO_STRUCTURE:
            return None, position + 1
        return (yield from inner(buffer, position + 1))

    return read


def _takes_steps(field: Field) -> bool:
    if not field.is_array:
        return field.entity is not None and any(map(_takes_steps, fields_of(field.entity)))
    _, convert = FIXED.get(field.kafka_type or "", ("", str))
    return convert is not None


def _stepwise_array_reader(field: Field, newest: Field | None, *, flexible: bool) -> ReadStepwise:
    one = _element_reader(field, newest, flexible=flexible)
    has_arrays = field.entity is not None and any(map(_takes_steps, fields_of(field.entity)))
    newest_entity = newest.entity if newest else None
    inner = compile_stepwise_reader(field.entity, newest_entity) if has_arrays else None

    def read(buffer: memoryview, position: int) -> Generator[None, None, tuple[Any, int]]:
        length, position = _array_length(
            buffer, position, flexible=flexible, nullable=field.is_nullable
        )
        if length < 0:
            return None, position
        items = []
        for _ in range(length):
            if inner is None:
                item, position = one(buffer, position)
            else:
                item, position = yield from inner(buffer, position)
            items.append(item)
            yield
        return tuple(items), position

    return read


@cache
def shape(name: str, names: tuple[str, ...]) -> Any:
    """Versions often have the same fields; making a class is what costs most in compiling."""
    make_class: Any = namedtuple
    return make_class(name, names)


def _read_tags(
    buffer: memoryview,
    position: int,
    count: int,
    tag_readers: Mapping[int | None, tuple[int, Read]],
    extra: list[Any],
) -> int:
    for _ in range(count):
        tag, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        end = position + size
        if end > len(buffer):
            raise ValueError(f"tagged field {tag} of {size} bytes goes past the end")
        known = tag_readers.get(tag)
        if known is not None:
            index, reader = known
            extra[index], stop = reader(buffer[:end], position)
            if stop != end:
                raise ValueError(f"tagged field {tag} does not fill its {size} bytes")
        position = end
    return position


def _read_steps(
    plain: Sequence[Field], newest_fields: Mapping[str, Field], *, flexible: bool
) -> list[tuple[struct.Struct | None, Callable[[Any], list[Any]] | None, Any]]:
    """Neighbouring fixed-width fields become one `struct` call: that is what makes this fast."""
    steps: list[tuple[struct.Struct | None, Callable[[Any], list[Any]] | None, Any]] = []
    run: list[Field] = []

    def end_run() -> None:
        if run:
            formats, converters = zip(*(FIXED[f.kafka_type or ""] for f in run), strict=True)
            steps.append((struct.Struct(">" + "".join(formats)), _converter(converters), None))
            run.clear()

    for field in plain:
        if field.is_fixed:
            run.append(field)
        else:
            end_run()
            reader = _field_reader(field, newest_fields.get(field.name), flexible=flexible)
            steps.append((None, None, reader))
    end_run()
    return steps


def _converter(converters: Sequence[Any]) -> Callable[[Any], list[Any]] | None:
    if not any(converters):
        return None

    def convert(numbers: Sequence[Any]) -> list[Any]:
        return [
            number if converter is None else converter(number)
            for number, converter in zip(numbers, converters, strict=True)
        ]

    return convert


def _field_reader(field: Field, newest: Field | None, *, flexible: bool) -> Read:
    if field.is_array:
        if field.kafka_type in FIXED and field.entity is None:
            return _fixed_array_reader(field, flexible=flexible)
        one = _element_reader(field, newest, flexible=flexible)
        return _array_reader(one, flexible=flexible, nullable=field.is_nullable)
    one = _element_reader(field, newest, flexible=flexible)
    return _nullable_entity_reader(one) if field.entity and field.is_nullable else one


def _element_reader(field: Field, newest: Field | None, *, flexible: bool) -> Read:
    """Of the field, or of one element of its array."""
    if field.entity is not None:
        return compile_reader(field.entity, newest.entity if newest else None)
    if field.kafka_type in FIXED:
        return _fixed_reader(field.kafka_type or "")
    # A tagged field is optional by being left out, never by being null.
    nullable = field.is_nullable and not field.is_array and field.tag is None
    return _sized_reader(field.kafka_type or "", flexible=flexible, nullable=nullable)


def _fixed_reader(kafka_type: str) -> Read:
    code, convert = FIXED[kafka_type]
    fixed = struct.Struct(">" + code)

    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        (value,) = fixed.unpack_from(buffer, position)
        return (convert(value) if convert else value), position + fixed.size

    return read


def _nullable_entity_reader(one: Read) -> Read:
    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        if buffer[position] == _NO_STRUCTURE:
            return None, position + 1
        return one(buffer, position + 1)

    return read


def _sized_reader(kafka_type: str, *, flexible: bool, nullable: bool) -> Read:
    is_text = kafka_type == "string"
    length_reader = _read_compact_length if flexible else _read_int16 if is_text else _read_int32

    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        length, position = length_reader(buffer, position)
        if length < 0:
            if length < -1 or not nullable:
                raise ValueError(f"length {length} of a field that must not be null")
            return None, position
        end = position + length
        if end > len(buffer):
            raise ValueError(f"field of {length} bytes goes past the end")
        if not is_text:
            return buffer[position:end], end
        if length > STRING_MAX_BYTES:
            raise ValueError(f"string of {length} bytes; the limit is {STRING_MAX_BYTES}")
        return str(buffer[position:end], "utf-8"), end

    return read


def _array_length(
    buffer: memoryview, position: int, *, flexible: bool, nullable: bool
) -> tuple[int, int]:
    length, position = (_read_compact_length if flexible else _read_int32)(buffer, position)
    if length < 0 and (length < -1 or not nullable):
        raise ValueError(f"array length {length} of an array that must not be null")
    if length > len(buffer) - position:
        raise ValueError(f"array length {length}, with {len(buffer) - position} bytes left")
    if length > 0:
        # As `take`, without the call: every array passes here.
        _elements.left -= length
        if _elements.left < 0:
            raise TooManyElements
    return length, position


def _array_reader(one: Read, *, flexible: bool, nullable: bool) -> Read:
    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        length, position = _array_length(buffer, position, flexible=flexible, nullable=nullable)
        if length < 0:
            return None, position
        items = []
        for _ in range(length):
            item, position = one(buffer, position)
            items.append(item)
        return tuple(items), position

    return read


def _fixed_array_reader(field: Field, *, flexible: bool) -> Read:
    code, convert = FIXED[field.kafka_type or ""]
    size = struct.calcsize(">" + code)

    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        length, position = _array_length(
            buffer, position, flexible=flexible, nullable=field.is_nullable
        )
        if length < 0:
            return None, position
        values = struct.unpack_from(
            f">{length}{code}" if size < 16 else ">" + code * length, buffer, position
        )
        return tuple(map(convert, values)) if convert else values, position + length * size

    return read


def _read_int16(buffer: memoryview, position: int) -> tuple[int, int]:
    return _INT16.unpack_from(buffer, position)[0], position + 2


def _read_int32(buffer: memoryview, position: int) -> tuple[int, int]:
    return _INT32.unpack_from(buffer, position)[0], position + 4


def _read_compact_length(buffer: memoryview, position: int) -> tuple[int, int]:
    """KIP-482: length plus one, so that 0 is null."""
    byte = buffer[position]
    if byte < 0x80:
        return byte - 1, position + 1
    length, position = read_uvarint(buffer, position)
    return length - 1, position


def read_uvarint(buffer: memoryview, position: int) -> tuple[int, int]:
    value = buffer[position]
    if value < 0x80:
        return value, position + 1
    value = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                raise ValueError("variable-length number of more than 32 bits")
            return value, position
        shift += 7
        if shift > 28:
            raise ValueError("variable-length number of more than five bytes")


def skip_tags(buffer: memoryview, position: int) -> int:
    """The position after the tagged fields of a header, none of which is used."""
    try:
        if buffer[position] == 0:
            return position + 1
        count, position = read_uvarint(buffer, position)
        if count > HEADER_MAX_TAGS:
            raise ValueError(f"{count} tagged fields; the limit is {HEADER_MAX_TAGS}")
        return _read_tags(buffer, position, count, {}, [])
    except (IndexError, ValueError) as error:
        raise Malformed(f"request header: {error}") from error
