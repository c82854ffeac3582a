"""When this broker may be sent traffic."""

import asyncio

from goqueue.service.cluster.administration import Administration


class Readiness:
    """Ready from the broker's announcement to the door's closing, while it can serve.

    An announcement of an earlier run is still in the metadata when the door opens. It may be equal
    to the new one, so what tells them apart is that an image takes over what did not change.
    """

    def __init__(self, administration: Administration, closing: asyncio.Event) -> None:
        self._administration = administration
        self._closing = closing
        self._earlier = administration.announcement

    def reason_not_ready(self) -> str | None:
        if self._closing.is_set():
            return "the broker is shutting down"
        failure = self._administration.serving_failure
        if failure is not None:
            return failure
        if self._administration.announcement is self._earlier:
            return "the broker is starting: not all of its doors are open"
        return None
