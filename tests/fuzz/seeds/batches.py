"""Record batches of every shape and codec, as inputs of `record_batches`."""

from collections.abc import Iterator
from typing import Final

from goqueue.model.batch import TIMESTAMP_TYPE_BIT, read_header
from goqueue.model.batch_editing import covering, with_records, without_records
from goqueue.model.control import Marker, MarkerType, encode_marker
from goqueue.model.header_names import DELAY_MS, DELIVER_AT, PRIORITY, TTL_MS
from goqueue.model.records import NewRecord, encode_records
from tests.fuzz.targets.record_batches import CODECS, KEEP_COUNT, SET_RIGHT

_NOW_MS: Final = 1_700_000_000_000
_FEATURES: Final = (
    (DELAY_MS, b"5000"),
    (DELIVER_AT, b"1700000005000"),
    (PRIORITY, b"high"),
    (PRIORITY, b"4"),
    (TTL_MS, b"60000"),
    (TTL_MS, b"soon"),
)
_RECORDS: Final = {
    "one": [NewRecord(value=b"v")],
    "keyed": [NewRecord(key=b"k%d" % n, value=b"value %d" % n) for n in range(6)],
    "tombstones": [NewRecord(key=b"k", value=None), NewRecord(key=b"", value=b"")],
    "headers": [NewRecord(value=b"v", headers=(("a", b"1"), ("a", None), ("", b"")))],
    "features": [NewRecord(value=b"v", headers=(each,)) for each in _FEATURES],
    "times": [NewRecord(value=b"v", timestamp_ms=n * 1_000) for n in (3, 1, 2)],
    "alike": [NewRecord(value=b"x" * 40) for _ in range(200)],
}


def inputs() -> Iterator[tuple[str, bytes]]:
    for name, records in _RECORDS.items():
        for codec in range(5):
            packed = bytes(encode_records(records, now_ms=_NOW_MS, compression=codec))
            # As it is, and set right after a change.
            yield f"{name}-{codec}", bytes([0]) + packed
            yield f"{name}-{codec}-right", bytes([SET_RIGHT]) + packed
        plain = bytes(encode_records(records, now_ms=_NOW_MS))
        for codec in CODECS:
            yield f"{name}-packed-{codec}", bytes([SET_RIGHT | codec]) + plain
    for label, batch in _special():
        yield label, bytes([0]) + batch
        yield f"{label}-right", bytes([SET_RIGHT | KEEP_COUNT]) + batch


def _special() -> Iterator[tuple[str, bytes]]:
    keyed = _RECORDS["keyed"]
    for is_transactional in (False, True):
        batch = bytes(
            encode_records(
                keyed,
                now_ms=_NOW_MS,
                is_transactional=is_transactional,
                producer_id=7,
                producer_epoch=1,
                base_sequence=40,
            )
        )
        yield f"producer-{int(is_transactional)}", batch
        header = read_header(batch)
        yield "emptied", without_records(header)
        yield "thinned", with_records(batch, header, [True, False] * 3, _NOW_MS)
    for kind in MarkerType:
        marker = encode_marker(Marker(kind, 2), producer_id=7, producer_epoch=1, now_ms=_NOW_MS)
        yield kind.name.lower(), bytes(marker)
    yield "covering", covering(5, 900, 1)
    plain = bytearray(encode_records(keyed, now_ms=_NOW_MS))
    plain[22] |= TIMESTAMP_TYPE_BIT
    yield "append-time", bytes(plain)
    yield "two", bytes(encode_records(keyed, now_ms=_NOW_MS)) * 2
    yield "oldest-format", bytes(16) + b"\x01" + bytes(60)
