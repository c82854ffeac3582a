"""Responses to bytes: a writer is compiled once per message and version.

A response is a nested mapping by kio's field names. Keys that the version lacks are left out, and
fields with a default may be. Record bytes stay chunks of their own, so that they are never copied.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from goqueue.doors.kafka.wire.fields import FIXED, NO_UUID, Buffer, Field, fields_of

Chunks = list[Buffer]
Write = Callable[[Chunks, Any], None]
# Writes the same, and stops for a moment after each element of an array.
WriteStepwise = Callable[[Chunks, Any], Iterator[None]]
Message = Mapping[str, Any]

# Below this, copying a chunk into its neighbour is cheaper than one more piece for the socket.
JOIN_BELOW_BYTES: Final = 16 * 1024

_NULL: Final = b"\xff"
_PRESENT: Final = b"\x01"
_NO_TAGS: Final = b"\x00"
_REQUIRED: Final = object()
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


def framed(chunks: Chunks) -> Chunks:
    """A response with its length before it, in few pieces; large ones are not copied."""
    size = sum(map(len, chunks))
    chunks.insert(0, _INT32.pack(size))
    return [b"".join(chunks)] if size < JOIN_BELOW_BYTES else join_small(chunks)


def join_small(chunks: Iterable[Buffer]) -> Chunks:
    """The same bytes in fewer pieces."""
    joined: Chunks = []
    small: list[Buffer] = []
    for chunk in chunks:
        if len(chunk) < JOIN_BELOW_BYTES:
            small.append(chunk)
            continue
        if small:
            joined.append(b"".join(small))
            small.clear()
        joined.append(chunk)
    if small:
        joined.append(b"".join(small))
    return joined


def compile_writer(entity: Any) -> Write:
    fields = fields_of(entity)
    flexible = bool(entity.__flexible__)
    steps = _write_steps([f for f in fields if f.tag is None], flexible=flexible)
    write_tags = _tags_writer(fields)

    def write(out: Chunks, message: Message) -> None:
        get = message.get
        for pack, run, one, name, default in steps:
            if pack is not None:
                out.append(pack(*[get(field, fallback) for field, fallback in run]))
            else:
                one(out, get(name, default))
        if write_tags is not None:
            write_tags(out, message)
        elif flexible:
            out.append(_NO_TAGS)

    return write


def compile_stepwise_writer(entity: Any) -> WriteStepwise:
    """For messages of very many elements, which take long to write."""
    fields = fields_of(entity)
    flexible = bool(entity.__flexible__)
    steps = _write_steps([f for f in fields if f.tag is None], flexible=flexible)
    arrays = {
        f.name: _stepwise_array_writer(f, flexible=flexible)
        for f in fields
        if f.is_array and f.tag is None
    }
    write_tags = _tags_writer(fields)

    def write(out: Chunks, message: Message) -> Iterator[None]:
        get = message.get
        for pack, run, one, name, default in steps:
            if pack is not None:
                out.append(pack(*[get(field, fallback) for field, fallback in run]))
            elif name in arrays:
                yield from arrays[name](out, get(name, default))
            else:
                one(out, get(name, default))
        if write_tags is not None:
            write_tags(out, message)
        elif flexible:
            out.append(_NO_TAGS)

    return write


def _stepwise_array_writer(field: Field, *, flexible: bool) -> WriteStepwise:
    one = _element_writer(field, flexible=flexible, nullable=False)
    whole = _array_writer(one, flexible=flexible, nullable=field.is_nullable)
    has_arrays = field.entity is not None and any(f.is_array for f in fields_of(field.entity))
    inner = compile_stepwise_writer(field.entity) if has_arrays else None
    length = uvarint_plus_one if flexible else _INT32.pack

    def write(out: Chunks, values: Any) -> Iterator[None]:
        if not values:
            whole(out, values)
            return
        out.append(length(len(values)))
        for value in values:
            if inner is None:
                one(out, value)
            else:
                yield from inner(out, value)
            yield

    return write


def _tags_writer(fields: Sequence[Field]) -> Callable[[Chunks, Message], None] | None:
    """None where there are no tagged fields."""
    tagged = [
        (f.name, f.tag, _field_writer(f, flexible=True))
        for f in sorted(fields, key=lambda f: f.tag or 0)
        if f.tag is not None
    ]

    def write(out: Chunks, message: Message) -> None:
        given = [item for item in tagged if message.get(item[0]) is not None]
        out.append(uvarint(len(given)))
        for name, tag, one in given:
            value: Chunks = []
            one(value, message[name])
            out.append(uvarint(tag or 0))
            out.append(uvarint(sum(map(len, value))))
            out.extend(value)

    return write if tagged else None


def _write_steps(plain: Sequence[Field], *, flexible: bool) -> list[tuple[Any, Any, Any, str, Any]]:
    """Neighbouring fixed-width fields become one `struct` call: that is what makes this fast."""
    steps: list[tuple[Any, Any, Any, str, Any]] = []
    run: list[Field] = []

    def end_run() -> None:
        if run:
            formats = "".join(FIXED[field.kafka_type or ""][0] for field in run)
            names = tuple((field.name, _fallback(field)) for field in run)
            steps.append((struct.Struct(">" + formats).pack, names, None, "", None))
            run.clear()

    for field in plain:
        if field.is_fixed and field.kafka_type != "uuid":
            run.append(field)
        else:
            end_run()
            one = _field_writer(field, flexible=flexible)
            steps.append((None, None, one, field.name, _fallback(field)))
    end_run()
    return steps


def _fallback(field: Field) -> Any:
    """What stands for a key that is not given; a required one makes the writer fail."""
    if field.name == "throttle_time":
        return 0
    if not field.has_default:
        return _REQUIRED
    if isinstance(field.default, timedelta):
        return field.default // timedelta(milliseconds=1)
    if field.kafka_type == "datetime_i64" and field.default is None:
        return -1
    return field.default


def _field_writer(field: Field, *, flexible: bool) -> Write:
    nullable = field.is_nullable and not field.is_array and field.tag is None
    one = _element_writer(field, flexible=flexible, nullable=nullable)
    if field.is_array:
        return _array_writer(one, flexible=flexible, nullable=field.is_nullable)
    return one


def _element_writer(field: Field, *, flexible: bool, nullable: bool) -> Write:
    """Of a field, or of each element if it is an array."""
    if field.entity is not None:
        one = compile_writer(field.entity)
        return _nullable_entity_writer(one) if nullable else one
    if field.kafka_type == "uuid":
        return _write_uuid
    if field.kafka_type in FIXED:
        return _fixed_writer(field.kafka_type or "")
    return _sized_writer(field.kafka_type or "", flexible=flexible, nullable=nullable)


def _write_uuid(out: Chunks, value: Any) -> None:
    out.append(NO_UUID if value is None else value.bytes)


def _fixed_writer(kafka_type: str) -> Write:
    pack = struct.Struct(">" + FIXED[kafka_type][0]).pack

    def write(out: Chunks, value: Any) -> None:
        out.append(pack(value))

    return write


def _nullable_entity_writer(one: Write) -> Write:
    def write(out: Chunks, value: Any) -> None:
        if value is None:
            out.append(_NULL)
        else:
            out.append(_PRESENT)
            one(out, value)

    return write


def _sized_writer(kafka_type: str, *, flexible: bool, nullable: bool) -> Write:
    is_text = kafka_type == "string"
    length = uvarint_plus_one if flexible else _INT16.pack if is_text else _INT32.pack
    null = length(-1)

    def write(out: Chunks, value: Any) -> None:
        if value is None:
            if not nullable:
                raise ValueError("null given for a field that must not be null")
            out.append(null)
            return
        data = value.encode() if is_text else value
        out.append(length(len(data)))
        if data:
            out.append(data)

    return write


def _array_writer(one: Write, *, flexible: bool, nullable: bool) -> Write:
    length = uvarint_plus_one if flexible else _INT32.pack
    null = length(-1)

    def write(out: Chunks, values: Any) -> None:
        if values is None:
            if not nullable:
                raise ValueError("null given for an array that must not be null")
            out.append(null)
            return
        out.append(length(len(values)))
        for value in values:
            one(out, value)

    return write


def uvarint_plus_one(value: int) -> bytes:
    """KIP-482: lengths are sent plus one, so that 0 is null."""
    return uvarint(value + 1)


def uvarint(value: int) -> bytes:
    if value < 0x80:
        return value.to_bytes(1, "big")
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
