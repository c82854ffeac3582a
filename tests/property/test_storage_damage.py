"""Damage of any kind, anywhere: what is served afterwards was once written, and at its offset."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.model.errors import CorruptBatch
from goqueue.storage.log import PartitionLog
from tests.unit.storage.stored_log import append, log_files, open_log, read_one


@st.composite
def damages(draw: st.DrawFn) -> tuple[str, float, bytes]:
    """What to do, where in the file (0 to 1), and bytes to do it with."""
    kind = draw(st.sampled_from(["overwrite", "insert", "remove", "cut"]))
    return kind, draw(st.floats(0, 1)), draw(st.binary(min_size=1, max_size=150))


def damaged(content: bytes, damage: tuple[str, float, bytes]) -> bytes:
    kind, where, junk = damage
    at = int(where * len(content))
    match kind:
        case "overwrite":
            return content[:at] + junk[: len(content) - at] + content[at + len(junk) :]
        case "insert":
            return content[:at] + junk + content[at:]
        case "remove":
            return content[:at] + content[at + len(junk) :]
        case _:
            return content[:at]


def served(log: PartitionLog) -> dict[int, bytes | None]:
    found = {}
    for offset in range(log.log_start_offset, log.log_end_offset):
        try:
            found[offset] = read_one(log, offset).value
        except CorruptBatch:
            continue
    return found


@given(
    sizes=st.lists(st.integers(0, 120), min_size=3, max_size=12),
    hits=st.lists(st.tuples(st.integers(0, 10), damages()), min_size=1, max_size=3),
    clean=st.booleans(),
    segment_bytes=st.sampled_from([250, 10_000]),
)
@settings(max_examples=100, deadline=None)
def test_only_what_was_written_is_served(
    sizes: list[int],
    hits: list[tuple[int, tuple[str, float, bytes]]],
    clean: bool,
    segment_bytes: int,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "p"
        log = open_log(path, segment_bytes=segment_bytes, index_interval_bytes=100)
        values = [b"%03d" % n + b"\0" * size for n, size in enumerate(sizes)]
        for value in values:
            append(log, value)
        log.close()
        files = log_files(log)
        untouched = set(range(len(values)))
        bases = [int(file.stem) for file in files] + [len(values)]
        for number, damage in hits:
            number %= len(files)
            files[number].write_bytes(damaged(files[number].read_bytes(), damage))
            untouched -= set(range(bases[number], bases[number + 1]))

        log = open_log(path, clean=clean, segment_bytes=segment_bytes, index_interval_bytes=100)

        found = served(log)
        assert all(values[offset] == value for offset, value in found.items())
        assert untouched <= set(found) | set(range(log.log_end_offset, len(values)))
        lost = set(range(log.log_end_offset)) - set(found)
        reported = {n for d in log.damage for n in range(d.offset, d.next_offset)}
        assert lost <= reported
        # A damaged batch may say a later epoch than there ever was; no checksum covers that.
        append(log, b"goes on", epoch=max(0, log.epochs.latest))
        assert read_one(log, log.log_end_offset - 1).value == b"goes on"
