"""A byte pattern is found wherever `bytes.find` finds it."""

from hypothesis import example, given
from hypothesis import strategies as st

from goqueue.model.byte_pattern import FIRST_LOOK_BYTES, BytePattern

PATTERN = b"abcd"


def found_by_python(data: bytes) -> list[int]:
    places, start = [], 0
    while (place := data.find(PATTERN, start)) >= 0:
        places.append(place)
        start = place + len(PATTERN)
    return places


@given(
    pieces=st.lists(
        st.sampled_from([PATTERN, b"abc", b"d", b"x" * 1_000, b"ab" * (FIRST_LOOK_BYTES // 2)])
    )
)
@example(pieces=[b"x" * (FIRST_LOOK_BYTES - 3), PATTERN])
@example(pieces=[b"x" * (FIRST_LOOK_BYTES - 4), PATTERN])
@example(pieces=[b"x" * (3 * FIRST_LOOK_BYTES - 8), PATTERN, PATTERN])
def test_places(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    pattern = BytePattern(PATTERN)
    expected = found_by_python(data)
    for buffer in (data, bytearray(data), memoryview(data)):
        assert list(pattern.places_in(buffer)) == expected
        assert pattern.is_in(buffer) == bool(expected)
