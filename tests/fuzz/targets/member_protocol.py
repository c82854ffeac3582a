"""What members of a classic group tell each other: subscriptions and assignments."""

from typing import Final

from goqueue.model.groups.consumer_protocol import (
    MalformedProtocol,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from tests.fuzz.target import Finding, Target, Verdict

_NEWEST_VERSION: Final = 3


def run(data: bytes) -> Verdict:
    return _subscription(data), _assignment(data)


def _subscription(data: bytes) -> Verdict:
    try:
        found = read_subscription(data)
    except MalformedProtocol as error:
        return str(error)
    written = write_subscription(
        found.version,
        found.topics,
        found.owned,
        generation=found.generation,
        rack_id=found.rack_id,
    )
    if read_subscription(written) != found:
        raise Finding(f"{found} is read back as {read_subscription(written)}")
    return found


def _assignment(data: bytes) -> Verdict:
    try:
        found = read_assignment(data)
    except MalformedProtocol as error:
        return str(error)
    written = write_assignment(_NEWEST_VERSION, found.partitions)
    expected = {topic: tuple(sorted(numbers)) for topic, numbers in found.partitions.items()}
    if read_assignment(written).partitions != expected:
        raise Finding(f"{found} is read back as {read_assignment(written)}")
    return found


TARGET: Final = Target(
    name="member_protocol",
    promise="a subscription or assignment is read or malformed; what was read is written back",
    run=run,
)
