"""What a request finds behind the door that it came by: all doors of a process share the routes."""

import asyncio
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

from goqueue.doors.http.metrics import Exposition
from goqueue.doors.http.readiness import Readiness
from goqueue.doors.web.bodies import BodyReader
from goqueue.service.broker_service import BrokerService

_BEHIND: Final = "goqueue.behind_door"


@dataclass(frozen=True, slots=True, kw_only=True)
class BehindDoor:
    service: BrokerService
    bodies: BodyReader
    readiness: Readiness
    exposition: Exposition
    closing: asyncio.Event

    def tell(self, scope: MutableMapping[str, Any]) -> None:
        scope[_BEHIND] = self


def behind_door(scope: Mapping[str, Any]) -> BehindDoor:
    found: BehindDoor = scope[_BEHIND]
    return found
