"""The search for the broker's own header names in opaque batches, and what the headers may say.

An input is searched as it is; its lines `name=value` are read as the headers of one record.
"""

from itertools import islice
from typing import Final

from goqueue.broker.partitions.feature_headers import features_of
from goqueue.model.byte_pattern import BytePattern
from goqueue.model.errors import InvalidRecord
from goqueue.model.header_names import PREFIX
from tests.fuzz.target import Finding, Target, Verdict

_NEEDLE: Final = PREFIX.encode()
_PATTERN: Final = BytePattern(_NEEDLE)
_NOW_MS: Final = 1_700_000_000_000
_HEADERS_MAX: Final = 1_000


def run(data: bytes) -> Verdict:
    places = _places(data)
    if list(_PATTERN.places_in(data)) != places or _PATTERN.is_in(data) != bool(places):
        raise Finding(f"{_NEEDLE!r} is at {places}, found at {list(_PATTERN.places_in(data))}")
    if list(islice(_PATTERN.places_in(data), 1)) != places[:1]:
        raise Finding("the first place is another one when no more are asked for")
    headers = []
    for line in data.split(b"\n")[:_HEADERS_MAX]:
        name, is_given, value = line.partition(b"=")
        headers.append((name.decode("utf-8", "replace"), value if is_given else None))
    try:
        found = features_of(headers, now_ms=_NOW_MS)
    except InvalidRecord as error:
        return places, str(error)
    return places, found


def _places(data: bytes) -> list[int]:
    places = []
    place = data.find(_NEEDLE)
    while place >= 0:
        places.append(place)
        place = data.find(_NEEDLE, place + len(_NEEDLE))
    return places


TARGET: Final = Target(
    name="header_search",
    promise="the search finds what bytes.find finds; a header is understood or refused by name",
    run=run,
)
