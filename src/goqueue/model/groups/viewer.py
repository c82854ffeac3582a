"""For whom a regular expression looks for topics."""

from typing import NamedTuple


class Viewer(NamedTuple):
    """As rules know who asks. Stored with the member, whose coordinator may be another broker."""

    kind: str
    name: str
    tenant: str
    address: str
    # Of members that live in a broker: what they may see and not read would be assigned to them,
    # and nobody be told. Kafka's clients are refused when they fetch it.
    must_read: bool = False
