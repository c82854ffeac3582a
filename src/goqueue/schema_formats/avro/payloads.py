"""Whether a payload is one whole value of its schema, byte for byte.

The bytes are stepped over and no value is built, so nothing a payload announces is ever allocated.
fastavro would decode them too, but takes what is no Avro (a boolean of 7, an int of 60 bits, symbol
-1 of an enum), and crashes the process on a deep value.
"""

from collections.abc import Callable
from typing import TypeAlias

from goqueue.model.schemas.formats import InvalidContent, SchemaSource
from goqueue.schema_formats.avro.schema_reading import read_schema
from goqueue.schema_formats.avro.schema_types import (
    Array,
    AvroType,
    Enum,
    Fixed,
    Map,
    Record,
    Schema,
    Union,
)

# Records, arrays and maps inside each other. Each takes two or three calls, and Python allows a
# thousand, of which the caller has used some.
MAX_VALUE_LEVELS = 200
# Items without a byte of their own, such as nulls: a reader builds as many as the payload says.
MAX_EMPTY_ITEMS = 1024 * 1024
# How many levels of a fault's place are told; they lead far enough to find it.
_TOLD_LEVELS = 16

_INT_BYTES, _LONG_BYTES = 5, 10
_INT_VALUES, _LONG_VALUES = 1 << 32, 1 << 64

# Takes the payload, where the value begins and how many levels are left; gives where it ends.
# Reading over the end raises IndexError, which `_Fault` replaces as soon as a place is known.
Step: TypeAlias = Callable[[bytes, int, int], int]


class _Fault(Exception):
    """What is wrong at a byte; the levels around it are added on the way out."""

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(problem)
        self.position = position
        self.problem = problem
        self.levels: list[str] = []

    def message(self) -> str:
        place = "/".join(self.levels[: -_TOLD_LEVELS - 1 : -1])
        if len(self.levels) > _TOLD_LEVELS:
            place += "/…"
        return f"{f'field {place}: ' if place else ''}{self.problem} (at byte {self.position})"


def make_validator(source: SchemaSource) -> "PayloadCheck":
    """What checks a payload, the bytes after Confluent's prefix; raises `InvalidContent`."""
    return PayloadCheck(source)


class PayloadCheck:
    """A schema made ready for payloads, of which it can check any number."""

    def __init__(self, source: SchemaSource) -> None:
        self._source = source
        self._step = _Preparation(read_schema(source)).root

    def __reduce__(self) -> "tuple[type[PayloadCheck], tuple[SchemaSource]]":
        return PayloadCheck, (self._source,)

    def __call__(self, payload: bytes) -> None:
        if type(payload) is not bytes:
            payload = bytes(payload)
        try:
            end = self._step(payload, 0, MAX_VALUE_LEVELS)
        except IndexError:
            raise InvalidContent(_ends_early(payload, 0).message()) from None
        except _Fault as fault:
            raise InvalidContent(fault.message()) from None
        if end != len(payload):
            raise InvalidContent(
                f"{len(payload) - end} bytes are left over after the value (at byte {end})"
            )


def _ends_early(payload: bytes, position: int) -> _Fault:
    return _Fault(min(position, len(payload)), "the payload ends before the value does")


def _read_number(
    payload: bytes, position: int, max_bytes: int, values: int, name: str
) -> tuple[int, int]:
    """A zigzag number and where it ends."""
    begin = position
    byte = payload[position]
    number = byte & 0x7F
    position += 1
    while byte >= 0x80:
        byte = payload[position]
        number |= (byte & 0x7F) << (7 * (position - begin))
        position += 1
        if position - begin == max_bytes:
            break
    if number >= values or byte >= 0x80:
        raise _Fault(begin, f"the number is too large for {name}")
    return (number >> 1) ^ -(number & 1), position


def _read_long(payload: bytes, position: int) -> tuple[int, int]:
    return _read_number(payload, position, _LONG_BYTES, _LONG_VALUES, "a long")


def _step_empty(_payload: bytes, position: int, _levels: int) -> int:
    return position


def _step_boolean(payload: bytes, position: int, _levels: int) -> int:
    if payload[position] > 1:
        raise _Fault(position, f"a boolean is 0 or 1, not {payload[position]}")
    return position + 1


def _step_int(payload: bytes, position: int, _levels: int) -> int:
    if payload[position] < 0x80:
        return position + 1
    return _read_number(payload, position, _INT_BYTES, _INT_VALUES, "an int")[1]


def _step_long(payload: bytes, position: int, _levels: int) -> int:
    last = position + _LONG_BYTES - 1
    while payload[position] >= 0x80:
        if position == last:
            raise _Fault(position, "the number is too large for a long")
        position += 1
    if position == last and payload[position] > 1:
        raise _Fault(position, "the number is too large for a long")
    return position + 1


def _read_length(payload: bytes, position: int) -> tuple[int, int]:
    """Where bytes or text begin and end."""
    length = payload[position]
    if length < 0x80 and not length & 1:
        begin = position + 1
        length >>= 1
    else:
        length, begin = _read_long(payload, position)
    end = begin + length
    if length < 0 or end > len(payload):
        left = len(payload) - begin
        raise _Fault(position, f"the length says {length} bytes, {left} are left")
    return begin, end


def _step_bytes(payload: bytes, position: int, _levels: int) -> int:
    return _read_length(payload, position)[1]


def _step_string(payload: bytes, position: int, _levels: int) -> int:
    length = payload[position]
    if length < 0x80 and not length & 1 and position + (length >> 1) < len(payload):
        # Most strings are short; a call less for them.
        begin = position + 1
        end = begin + (length >> 1)
    else:
        begin, end = _read_length(payload, position)
    text = payload[begin:end]
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError as error:
            raise _Fault(begin + error.start, "the string is not UTF-8") from None
    return end


def _step_over(size_bytes: int) -> Step:
    def step(payload: bytes, position: int, _levels: int) -> int:
        position += size_bytes
        if position > len(payload):
            raise _ends_early(payload, position)
        return position

    return step


def _step_enum(symbols: int) -> Step:
    def step(payload: bytes, position: int, _levels: int) -> int:
        index = payload[position]
        if index < 0x80 and not index & 1 and index >> 1 < symbols:
            return position + 1
        index, end = _read_number(payload, position, _INT_BYTES, _INT_VALUES, "an int")
        if not 0 <= index < symbols:
            raise _Fault(position, f"the enum has {symbols} symbols, none is number {index}")
        return end

    return step


_PRIMITIVE_STEPS: dict[str, Step] = {
    "null": _step_empty,
    "boolean": _step_boolean,
    "int": _step_int,
    "long": _step_long,
    "float": _step_over(4),
    "double": _step_over(8),
    "bytes": _step_bytes,
    "string": _step_string,
}


def _step_union(branches: list[Step]) -> Step:
    def step(payload: bytes, position: int, levels: int) -> int:
        index, end = _read_long(payload, position)
        if not 0 <= index < len(branches):
            raise _Fault(position, f"the union has {len(branches)} types, none is number {index}")
        return branches[index](payload, end, levels)

    return step


def _step_nullable(branches: list[Step]) -> Step:
    """A union of null and one type, by far the most common one."""
    any_step = _step_union(branches)

    def step(payload: bytes, position: int, levels: int) -> int:
        index = payload[position]
        if index == 0 or index == 2:
            return branches[index >> 1](payload, position + 1, levels)
        return any_step(payload, position, levels)

    return step


def _step_record(steps: list[tuple[str, Step]]) -> Step:
    def step(payload: bytes, position: int, levels: int) -> int:
        if not levels:
            raise _Fault(position, f"values are nested deeper than {MAX_VALUE_LEVELS} levels")
        levels -= 1
        name = ""
        try:
            for name, field_step in steps:  # noqa: B007 - the fault's place
                position = field_step(payload, position, levels)
        except IndexError:
            fault = _ends_early(payload, len(payload))
            fault.levels.append(name)
            raise fault from None
        except _Fault as fault:
            fault.levels.append(name)
            raise
        return position

    return step


def _step_blocks(item_step: Step, *, empty_items: bool) -> Step:
    """Arrays and maps: blocks with the number of their items, the last one has none."""

    def step(payload: bytes, position: int, levels: int) -> int:
        if not levels:
            raise _Fault(position, f"values are nested deeper than {MAX_VALUE_LEVELS} levels")
        items = 0
        while True:
            begin = position
            count, position, block_end = _read_block_head(payload, position)
            if not count:
                return position
            items += count
            if empty_items:
                if items > MAX_EMPTY_ITEMS:
                    raise _Fault(begin, f"{items} items, the limit is {MAX_EMPTY_ITEMS}")
            elif count > len(payload) - position:
                left = len(payload) - position
                raise _Fault(begin, f"the block says {count} items, {left} bytes are left")
            else:
                position = _step_items(item_step, count, items - count, payload, position, levels)
            if block_end is not None and block_end != position:
                raise _Fault(begin, "the block's size in bytes is not that of its items")

    return step


def _read_block_head(payload: bytes, position: int) -> tuple[int, int, int | None]:
    """How many items, where they begin, and where they end if the block says so."""
    count, position = _read_long(payload, position)
    if count >= 0:
        return count, position, None
    size_bytes, position = _read_long(payload, position)
    return -count, position, position + size_bytes


def _step_items(
    item_step: Step, count: int, first: int, payload: bytes, position: int, levels: int
) -> int:
    index = first
    try:
        for index in range(first, first + count):  # noqa: B007 - the fault's place
            position = item_step(payload, position, levels - 1)
    except IndexError:
        fault = _ends_early(payload, len(payload))
        fault.levels.append(str(index))
        raise fault from None
    except _Fault as fault:
        fault.levels.append(str(index))
        raise
    return position


def _step_entry(value_step: Step) -> Step:
    def step(payload: bytes, position: int, levels: int) -> int:
        return value_step(payload, _step_string(payload, position, levels), levels)

    return step


class _Preparation:
    """Records refer to each other, so all have their step before any has its fields' steps."""

    def __init__(self, schema: Schema) -> None:
        self._records: dict[str, Step] = {}
        records = [named for named in schema.names.values() if isinstance(named, Record)]
        field_steps: dict[str, list[tuple[str, Step]]] = {record.name: [] for record in records}
        for record in records:
            self._records[record.name] = _step_record(field_steps[record.name])
        for record in records:
            field_steps[record.name] += [
                (field.name, self._step_of(field.type)) for field in record.fields
            ]
        self.root = self._step_of(schema.root)

    def _step_of(self, avro_type: AvroType) -> Step:
        # Records without a byte may hold each other twice at each of many levels.
        if avro_type.is_empty:
            return _step_empty
        match avro_type:
            case Record(name=name):
                return self._records[name]
            case Enum(symbols=symbols):
                return _step_enum(len(symbols))
            case Fixed(size_bytes=size_bytes):
                return _step_over(size_bytes)
            case Array(items=items):
                return _step_blocks(self._step_of(items), empty_items=items.is_empty)
            case Map(values=values):
                return _step_blocks(_step_entry(self._step_of(values)), empty_items=False)
            case Union(branches=branches):
                steps = [self._step_of(branch) for branch in branches]
                return _step_nullable(steps) if len(steps) == 2 else _step_union(steps)
            case _:
                return _PRIMITIVE_STEPS[avro_type.kind]
