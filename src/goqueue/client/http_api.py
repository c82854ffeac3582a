"""The broker's HTTP API for commands that Kafka's protocol has no words for."""

import base64
import json
import urllib.error
import urllib.request
from http.client import BadStatusLine, HTTPException
from typing import Any, Final
from urllib.parse import quote, urlencode

from goqueue.client.tls import tls_context
from goqueue.model.client_security import NO_SECURITY, ClientSecurity
from goqueue.model.errors import GoQueueError, InvalidRequest

# Longer than the longest long poll.
TIMEOUT_S: Final = 60.0
# RFC 8446, 5.1: an alert, which is how TLS answers who does not speak it.
_TLS_ALERT: Final = "\x15\x03"


class HttpUnreachable(GoQueueError):
    """Nobody answers HTTP at the address."""

    code = "http_unreachable"
    retriable = True


class HttpRefused(GoQueueError):
    """The broker said no; the message is its own."""

    code = "http_refused"

    def __init__(self, message: str, status: int, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        # The stable code in the answer; a number from the schema registry.
        self.reason = reason


class HttpApi:
    """`url` may be several, with commas between: while one broker is down, another is asked."""

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = TIMEOUT_S,
        path: str = "",
        security: ClientSecurity = NO_SECURITY,
    ) -> None:
        self._urls = [each.strip().rstrip("/") for each in url.split(",") if each.strip()] or [""]
        self._path = path
        self._timeout_s = timeout_s
        self._security = security

    @property
    def url(self) -> str:
        """Of the broker that is asked first."""
        return self._urls[0]

    def within(self, *path: str) -> "HttpApi":
        """The part of the API that is found under a path."""
        return HttpApi(
            ",".join(self._urls),
            timeout_s=self._timeout_s,
            path=self._address(path, {}),
            security=self._security,
        )

    def get(self, *path: str, **query: object) -> Any:
        return self._send("GET", self._address(path, query))

    def post(self, *path: str, body: object, **query: object) -> Any:
        return self._send("POST", self._address(path, query), json.dumps(body).encode())

    def put(self, *path: str, body: object, **query: object) -> Any:
        return self._send("PUT", self._address(path, query), json.dumps(body).encode())

    def patch(self, *path: str, body: object, **query: object) -> Any:
        return self._send("PATCH", self._address(path, query), json.dumps(body).encode())

    def delete(self, *path: str, **query: object) -> Any:
        return self._send("DELETE", self._address(path, query))

    def _address(self, parts: tuple[str, ...], query: dict[str, object]) -> str:
        if "" in parts:
            raise InvalidRequest("a name is empty, and an empty one is nothing's")
        path = self._path + "".join(f"/{quote(part, safe='')}" for part in parts)
        given = {name: value for name, value in query.items() if value is not None}
        return path + ("?" + urlencode(given) if given else "")

    def begin_elsewhere(self) -> None:
        """The next request is for another broker first."""
        self._urls.append(self._urls.pop(0))

    def _send(self, method: str, address: str, body: bytes | None = None) -> Any:
        failure: HttpUnreachable | None = None
        for url in tuple(self._urls):
            try:
                content = self._ask(url, method, address, body)
                break
            except _NotSent as error:
                failure = failure or HttpUnreachable(str(error))
            except HttpUnreachable as error:
                # Whether it was carried out is not known, which matters to what changes something.
                if method != "GET":
                    self.begin_elsewhere()
                    raise
                failure = failure or error
            self.begin_elsewhere()
        else:
            assert failure is not None, "there is at least one address"
            raise failure
        return json.loads(content) if content else None

    def _ask(self, url: str, method: str, address: str, body: bytes | None) -> bytes:
        headers = {"content-type": "application/json"} if body is not None else {}
        headers |= _credentials(self._security)
        try:
            request = urllib.request.Request(
                url + address, data=body, method=method, headers=headers
            )
            with urllib.request.urlopen(
                request, timeout=self._timeout_s, context=tls_context(self._security)
            ) as answer:
                content: bytes = answer.read()
                return content
        except urllib.error.HTTPError as error:
            raise _refusal(error) from None
        except urllib.error.URLError as error:
            raise _NotSent(f"no broker answers at {url}: {error.reason}") from None
        except (HTTPException, OSError, ValueError) as error:
            raise HttpUnreachable(f"no broker answers at {url}: {_said(error)}") from None


def _said(error: Exception) -> str:
    """What came in place of HTTP may be any bytes, which are not for a terminal."""
    said = str(error)
    if not isinstance(error, BadStatusLine) or isinstance(error, ConnectionError):
        return said
    if said.startswith(_TLS_ALERT):
        return "it speaks TLS, so write https://"
    return f"{said[:64]!r} is no HTTP"


def _credentials(security: ClientSecurity) -> dict[str, str]:
    if security.token:
        return {"authorization": f"Bearer {security.token}"}
    if not security.username:
        return {}
    pair = base64.b64encode(f"{security.username}:{security.password}".encode()).decode()
    return {"authorization": f"Basic {pair}"}


class _NotSent(HttpUnreachable):
    """The request never reached the broker as a whole: nothing was done."""


def _refusal(error: urllib.error.HTTPError) -> HttpRefused:
    try:
        content = json.loads(error.read())
        # The schema registry speaks Confluent's way: no `error` around it.
        told = content.get("error", content)
        reason = str(told.get("code", told.get("error_code", "")))
        return HttpRefused(str(told["message"]), error.code, reason)
    except (ValueError, KeyError, TypeError, AttributeError):
        return HttpRefused(f"HTTP status {error.code}", error.code)
