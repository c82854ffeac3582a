"""Who asks: every operation of the broker takes a caller, whatever door it came through."""

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple


class Door(Enum):
    KAFKA = "kafka"
    HTTP = "http"
    SQS = "sqs"
    REGISTRY = "registry"


class Principal(NamedTuple):
    """Whom rules speak of. The tenant is empty for those who belong to none."""

    kind: str
    name: str
    tenant: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


# Everyone, while security is off.
ANONYMOUS: Final = Principal("User", "ANONYMOUS")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """`client_id` is what the client calls itself; nothing is decided by it."""

    principal: Principal
    door: Door
    client_id: str = ""
    address: str = ""
    port: int = 0
