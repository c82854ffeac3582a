"""/session and /whoami: browsers log in here, and everyone can ask who it is."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from litestar import Request, Response, delete, get, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler

from goqueue.doors.http.body import decode, read_json
from goqueue.doors.http.errors import Refusal
from goqueue.doors.http.openapi import errors
from goqueue.doors.http.security.credentials import Credentials
from goqueue.doors.http.security.users import TAGS
from goqueue.doors.web.bodies import BodyReader
from goqueue.doors.web.log_in import COOKIE, SESSION_PATH, authorization_in, session_in
from goqueue.model.caller import Caller
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import OPEN

# RFC 6265 and its successor: no script sees it, no other site's page has it sent.
_STRICT: Final = "Path=/; HttpOnly; SameSite=Strict"
# The longest name and password, each character escaped. Anybody may send this body: were it read
# like others, those who have no log-in would take the room that publishers' bodies have.
LOG_IN_MAX_BYTES: Final = 16 * 1024


class Session(msgspec.Struct, frozen=True, rename="camel"):
    principal: str
    tenant: str
    expires_ms: int | None


class WhoAmI(msgspec.Struct, frozen=True):
    principal: str
    tenant: str
    door: str


_credentials: Final = msgspec.json.Decoder(Credentials)


@get("/whoami", tags=TAGS, responses=errors(400), opt={"needs": OPEN})
async def whoami(caller: NamedDependency[Caller]) -> WhoAmI:
    """Who asks, as the broker sees it."""
    principal = caller.principal
    return WhoAmI(str(principal), principal.tenant, caller.door.value)


@post(
    SESSION_PATH,
    tags=TAGS,
    responses=errors(400, 401, 409, 413, 415),
    opt={"needs": OPEN},
)
async def begin_session(
    service: NamedDependency[BrokerService], request: Request[Any, Any, Any]
) -> Response[Session]:
    """Log in from a browser, with a body or by Basic: the answer sets a cookie."""
    logins = service.web_logins
    if not logins.is_on:
        raise Refusal(409, "security_off", "nobody logs in while security.enabled is false")
    authorization = authorization_in(request.scope["headers"])
    if authorization is not None:
        begun = await logins.begin_session_by(authorization)
    else:
        shown = decode(await _log_in_body(request), _credentials)
        begun = await logins.begin_session(shown.name, shown.password)
    principal = begun.user.principal
    session = Session(str(principal), principal.tenant, begun.expires_ms)
    return Response(session, headers=_setting(request, f"{COOKIE}={begun.word}"))


@get(SESSION_PATH, tags=TAGS, responses=errors(400), opt={"needs": OPEN})
async def show_session(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    request: Request[Any, Any, Any],
) -> Session:
    """Who is logged in, and until when."""
    headers = request.scope["headers"]
    word = session_in(headers) if authorization_in(headers) is None else None
    principal = caller.principal
    expires_ms = None if word is None else service.web_logins.session_expires_ms(word)
    return Session(str(principal), principal.tenant, expires_ms or None)


async def _forget(response: Response[Any]) -> Response[Any]:
    response.headers["set-cookie"] = f"{COOKIE}=; Max-Age=0; {_STRICT}"
    return response


@delete(SESSION_PATH, tags=TAGS, responses=errors(400), opt={"needs": OPEN}, after_request=_forget)
async def end_session(
    service: NamedDependency[BrokerService], request: Request[Any, Any, Any]
) -> None:
    """Log out: the answer removes the cookie."""
    word = session_in(request.scope["headers"])
    if word is not None:
        service.web_logins.end_session(word)


async def _log_in_body(request: Request[Any, Any, Any]) -> bytes:
    bodies = BodyReader(max_bytes=LOG_IN_MAX_BYTES, held_max_bytes=LOG_IN_MAX_BYTES)
    headers = request.scope["headers"]
    limit = f"a log-in may be: {LOG_IN_MAX_BYTES} bytes"
    body = await read_json(bodies, headers, request.receive, limit=limit)
    if not body:
        raise Refusal(400, "invalid_request", "the request needs a body of JSON")
    return body


def _setting(request: Request[Any, Any, Any], cookie: str) -> dict[str, str]:
    secure = "; Secure" if request.scope["scheme"] == "https" else ""
    return {"set-cookie": f"{cookie}; {_STRICT}{secure}", "cache-control": "no-store"}


ROUTES: Final[Sequence[HTTPRouteHandler]] = (whoami, begin_session, show_session, end_session)
