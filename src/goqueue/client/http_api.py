"""The broker's HTTP API for commands that Kafka's protocol has no words for."""

import json
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import quote, urlencode

from goqueue.model.errors import GoQueueError

# Longer than the longest long poll.
TIMEOUT_S: Final = 60.0


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
    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self._url = url.rstrip("/")
        self._timeout_s = timeout_s

    def within(self, *path: str) -> "HttpApi":
        """The part of the API that is found under a path."""
        return HttpApi(self._address(path, {}), timeout_s=self._timeout_s)

    def get(self, *path: str, **query: object) -> Any:
        return self._send("GET", self._address(path, query))

    def post(self, *path: str, body: object, **query: object) -> Any:
        return self._send("POST", self._address(path, query), json.dumps(body).encode())

    def put(self, *path: str, body: object, **query: object) -> Any:
        return self._send("PUT", self._address(path, query), json.dumps(body).encode())

    def delete(self, *path: str, **query: object) -> Any:
        return self._send("DELETE", self._address(path, query))

    def _address(self, parts: tuple[str, ...], query: dict[str, object]) -> str:
        path = self._url + "".join(f"/{quote(part, safe='')}" for part in parts)
        given = {name: value for name, value in query.items() if value is not None}
        return path + ("?" + urlencode(given) if given else "")

    def _send(self, method: str, url: str, body: bytes | None = None) -> Any:
        headers = {"content-type": "application/json"} if body is not None else {}
        request = urllib.request.Request(url, data=body, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as answer:
                content = answer.read()
        except urllib.error.HTTPError as error:
            raise _refusal(error) from None
        except (urllib.error.URLError, HTTPException, OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise HttpUnreachable(f"no broker answers at {self._url}: {reason}") from None
        return json.loads(content) if content else None


def _refusal(error: urllib.error.HTTPError) -> HttpRefused:
    try:
        content = json.loads(error.read())
        # The schema registry speaks Confluent's way: no `error` around it.
        told = content.get("error", content)
        reason = str(told.get("code", told.get("error_code", "")))
        return HttpRefused(str(told["message"]), error.code, reason)
    except (ValueError, KeyError, TypeError, AttributeError):
        return HttpRefused(f"HTTP status {error.code}", error.code)
