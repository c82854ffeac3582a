"""What brokers of a cluster ask each other to do: a method by name, a request, an answer.

Rights travel with the request. The broker that a client spoke to has asked for them; another broker
of the cluster believes it.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, NamedTuple, Self, TypeVar

import msgspec

from goqueue.model.names import NodeId

Q = TypeVar("Q")
R = TypeVar("R")

# Stands where Kafka's requests name their operation; Kafka uses none above some hundreds.
CALL_API_KEY: Final = 30_000
# In place of its version: a call, and that nobody waits any more for the one of this number.
CALL: Final = 0
FORGET: Final = 1


@dataclass(frozen=True, slots=True)
class Method(Generic[Q, R]):
    """`waits`: it may be forgotten at any time before it answers. `is_repeatable`: it changes
    nothing, or knows what it has done, and is asked again when its answer is lost."""

    name: str
    request: type[Q]
    answer: type[R]
    waits: bool = False
    is_repeatable: bool = False


class Travels(ABC):
    """Part of a request that is more than data, until it is on its way to another broker; `form` is
    the type of what it is there."""

    __slots__ = ()
    form: ClassVar[Any]

    @abstractmethod
    def packed(self) -> Any: ...

    @classmethod
    @abstractmethod
    def unpacked(cls, data: Any) -> Self: ...


class Unanswered(NamedTuple):
    """A broker that is missing in a list, and why."""

    broker: NodeId
    reason: str


class Call(msgspec.Struct, array_like=True, frozen=True):
    """To the leader of a partition under this epoch; without a topic, to the broker itself."""

    method: str
    topic: str
    partition: int
    leader_epoch: int
    # For whom, as stories of messages name it.
    client: str | None
    request: msgspec.Raw
    # Of the metadata that the asker knows: whoever has heard of less waits for it first.
    revision: int = 0


class Failure(msgspec.Struct, array_like=True, frozen=True):
    """An error on its way. `is_untouched`: nothing was done, and another broker may be asked."""

    kind: str
    message: str
    details: dict[str, Any]
    is_untouched: bool


class Answer(msgspec.Struct, array_like=True, frozen=True):
    answer: msgspec.Raw
    failure: Failure | None = None
