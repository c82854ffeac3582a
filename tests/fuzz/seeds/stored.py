"""Files and records as a broker with something of everything writes them, for `stored_state`."""

import asyncio
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from goqueue.model.batch import iterate_batches
from goqueue.model.records import Record, decode_records
from goqueue.storage.index import SealedIndex, SegmentIndex, encode_index
from goqueue.storage.origin import Origin
from tests.access.canaries import canary_world
from tests.fuzz.targets.stored_state import SEALED

# By topic and by file, which of `KINDS` reads it.
_MACHINES: Final = (
    ("__consumer_offsets", 0),
    ("__queue_state", 1),
    ("__transaction_state", 2),
    ("_schemas", 3),
)
_FILES: Final = (
    (r"clean-shutdown", 7),
    (r"leader-epochs\.json", 8),
    (r"aborted\.transactions", 9),
    (r".*\.log", 10),
    (r"(log|snapshot)-\d+", 12),
)
_NOTES: Final = 13
_INDEX: Final = 11
_STATE_SNAPSHOT: Final = 4
_FILE_MAX_BYTES: Final = 8_192
_TOMBSTONE: Final = 255
# Of a record's key and value, in one byte each.
_PART_MAX_BYTES: Final = 254


def inputs() -> Iterator[tuple[str, bytes]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asyncio.run(_fill(folder))
        data = folder / "data"
        yield from _records(data / "logs")
        for path in sorted(each for each in data.rglob("*") if each.is_file()):
            content = path.read_bytes()
            for pattern, kind in _FILES:
                if re.fullmatch(pattern, path.name) and 0 < len(content) <= _FILE_MAX_BYTES:
                    yield f"file-{kind}", bytes([kind]) + content
                    if kind in (7, 8):
                        yield f"sealed-{kind}", bytes([kind | SEALED]) + content.partition(b"\n")[2]
    yield from _made()


async def _fill(folder: Path) -> None:
    async with canary_world(folder):
        pass


def _records(logs: Path) -> Iterator[tuple[str, bytes]]:
    for topic, kind in _MACHINES:
        found = [r for log in sorted(logs.glob(f"{topic}[-.]*/*.log")) for r in _read(log)]
        every = b"".join(map(_packed, found))
        yield f"{topic}-all", bytes([kind]) + every
        for record in found:
            yield f"{topic}-one", bytes([kind]) + _packed(record)
    for log in sorted(logs.glob("__delayed.*/*.log")):
        for record in _read(log):
            if not record.headers:
                yield "note", bytes([_NOTES]) + (record.value or b"")


def _read(log: Path) -> Iterator[Record]:
    data = log.read_bytes()
    for position, header in iterate_batches(data):
        if not header.is_control:
            yield from decode_records(data[position : position + header.size_bytes])


def _packed(record: Record) -> bytes:
    key, value = record.key or b"", record.value or b""
    if max(len(key), len(value)) > _PART_MAX_BYTES:
        return b""
    size = _TOMBSTONE if record.value is None else len(value)
    return bytes([len(key), size]) + key + value


def _made() -> Iterator[tuple[str, bytes]]:
    index = SegmentIndex()
    for number in range(5):
        index.add(number * 10, number * 4_096, number)
    places, times = encode_index(
        SealedIndex(index, max_timestamp_ms=9, next_offset=50), 0, 1_000, Origin(1, 2, 1_000, 50)
    )
    yield "index", bytes([_INDEX]) + places + b"----" + times
    yield "state", bytes([_STATE_SNAPSHOT | SEALED]) + b"GQSTATE1" + bytes(7) + b"\x05" + bytes(4)
