"""Brokers that did not answer, in lists that are gathered from all of a cluster."""

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from goqueue.model.calls import Unanswered


class UnansweredBroker(msgspec.Struct, frozen=True):
    broker: Annotated[int, Meta(description="Node id.")]
    reason: str


UnansweredBrokers = Annotated[
    list[UnansweredBroker],
    Meta(description="Brokers that did not answer: what they know is missing. Left out if empty."),
]


def show_unanswered(unanswered: Iterable[Unanswered]) -> list[UnansweredBroker]:
    return [UnansweredBroker(*each) for each in unanswered]
