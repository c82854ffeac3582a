"""The door as the HTTP door sees it; what answers is loaded with the first request."""

import asyncio

from goqueue.doors.sqs.recognising import is_for_sqs, is_presigned
from goqueue.doors.web.asgi import Application, Receive, Scope, Send
from goqueue.doors.web.late_app import LateApp
from goqueue.doors.web.site_guard import Unwelcome
from goqueue.model.caller import Door
from goqueue.service.broker_service import BrokerService


class SqsDoor:
    """Mounted in the HTTP door: `takes` says which requests are for it."""

    name = "sqs"
    door = Door.SQS
    # By signatures, which are over bodies, too.
    logs_in = True

    def __init__(self, service: BrokerService) -> None:
        self._service = service
        self._takes_presigned = service.web_logins.is_on
        self._closing = asyncio.Event()
        self._app = LateApp(self._build)

    def _build(self) -> Application:
        from goqueue.doors.sqs.answering import Answering

        return Answering(self._service, self._closing)

    def close(self) -> None:
        """Answer what waits; called before the broker closes."""
        self._closing.set()

    def takes(self, scope: Scope) -> bool:
        return is_for_sqs(scope) or (self._takes_presigned and is_presigned(scope))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    async def refuse(self, unwelcome: Unwelcome, scope: Scope, send: Send) -> None:
        from goqueue.doors.sqs.answering import refuse

        await refuse(unwelcome, scope, send)
