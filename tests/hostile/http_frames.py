"""What hostile HTTP clients send to the broker's own routes."""

import json
import random
from typing import Any, Final

from goqueue.doors.http.app import ROUTES
from tests.hostile.bursts import Burst, in_turn
from tests.hostile.web_requests import HOSTS, burst_of, deep, request

TOPIC: Final = "hostile-0"
# By the name of the part of the path.
_PARTS: Final = {
    "name": (TOPIC, "hostile-1", "wide-0", "bombs-0", "nothing", "..", "%2e%2e", "a" * 300, "%00"),
    "group": ("hostile", "h-%f0%9f%92%a9", "g" * 300),
    "partition": ("0", "-1", "999999999999", "x"),
    "offset": ("0", "-1", "9" * 30),
    "message_id": ("x", "0" * 64),
    "trace_id": ("0" * 32, "x"),
    "producer": ("1", "-1", "9" * 30),
}
_KEPT: Final = {TOPIC, "hostile-1", "wide-0", "bombs-0"}
_BODIES: Final[tuple[Any, ...]] = (
    {},
    [],
    {"value": "hostile"},
    {"value": {"a": [1, 2, None]}, "key": "k", "headers": [{"name": "a", "value": "b"}]},
    {"value": "x" * 50_000, "delay": 1_000, "priority": 3},
    {"name": "fleeting-http", "partitions": 1},
    {"name": "fleeting-http", "partitions": 50},
    {"name": "x" * 500, "partitions": 10**9, "config": {"retention.ms": "-7"}},
    {"topic": TOPIC, "max": 100, "start": "earliest", "visibility": 1_000},
    {"topic": TOPIC, "max": 10**30, "timeout": -1},
    {"group": "hostile", "receipts": ["hostile-0:0:0:1:x"] * 1_000},
    {"group": "hostile", "receipts": ["nothing", "", "\0"]},
    {"memberId": "m", "topics": [TOPIC], "sessionTimeout": 10_000},
    {"producer": 1, "epoch": 0, "transactionalId": "hostile"},
    {"offsets": [{"topic": TOPIC, "partition": 0, "offset": 2**63}]},
    {"value": 1e308, "key": [[]], "headers": {"a": "b"}},
)
_HEADERS: Final = [{"name": "h", "value": "v"}] * 5
_COSTLY: Final = (
    request("GET", "/topics"),
    request("GET", "/metrics"),
    request("GET", "/groups"),
    request("GET", "/reliability/stats"),
    request("GET", "/priority/stats"),
    request("GET", "/transactions"),
    request("GET", "/openapi.json"),
    request("GET", "/traces/search?limit=1000"),
    request("GET", "/topics/bombs-0/partitions/0/messages?offset=0&limit=1000"),
    request("GET", "/topics/hostile-0/partitions/0/messages?offset=0&limit=1000"),
    request("GET", "/topics/hostile-0/dlq?limit=1000"),
    request("POST", "/topics/hostile-0/dlq/redrive", b'{"group": "hostile"}'),
    request(
        "POST", "/groups/hostile/receive", b'{"topic": "bombs-0", "max": 1000, "start": "earliest"}'
    ),
    request(
        "POST",
        "/groups/hostile/receive",
        b'{"topic": "hostile-0", "max": 1000, "start": "earliest", "visibility": 1}',
    ),
    request(
        "POST",
        "/groups/hostile/receive",
        b'{"topic": "wide-0", "max": 1000, "start": "earliest", "timeout": 20000}',
    ),
    request("POST", "/topics/hostile-0/messages", deep(100_000)),
    request("POST", "/topics/hostile-0/messages", b'{"value": %s}' % deep(400)),
    request(
        "POST",
        "/topics/hostile-0/messages",
        json.dumps(
            {"messages": [{"value": n, "headers": _HEADERS} for n in range(1_000)]}
        ).encode(),
    ),
    request("POST", "/topics/hostile-0/messages", b'{"value": "%s"}' % (b"\\u00e9" * 150_000)),
    request("POST", "/topics/hostile-0/messages", b'{"value": [%s1]}' % (b"1," * 400_000)),
    request("POST", "/topics/hostile-0/messages", b"{" + b'"a": 1, ' * 100_000 + b'"value": 1}'),
)


class HttpFrames:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._requests = [
            self._filled(method, path)
            for path, methods in _routes()
            for method in methods
            for _ in range(4)
        ]
        self._costly = in_turn(chance, _COSTLY)

    def burst(self) -> Burst:
        return burst_of(self._chance, self._requests)

    def costly(self) -> Burst:
        return Burst(next(self._costly), 1)

    def _filled(self, method: str, path: str) -> bytes:
        chance = self._chance
        parts = []
        for part in path.split("/"):
            if part.startswith("{"):
                part = chance.choice(_PARTS.get(part.strip("{}").split(":")[0], ("x",)))
            parts.append(part)
        if method == "DELETE":
            # What other requests name stays.
            parts = ["fleeting-http" if part in _KEPT else part for part in parts]
        query = chance.choice(("", "", "?limit=5", "?from=earliest", "?x=%ff", "?limit=-1&limit=2"))
        body = json.dumps(chance.choice(_BODIES)).encode() if method in ("POST", "PUT") else b""
        host = chance.choice(HOSTS) if chance.random() < 0.1 else "127.0.0.1"
        return request(method, "/".join(parts) + query, body, host=host)


def _routes() -> list[tuple[str, list[str]]]:
    """Without those that wait for long: the costly ones have some."""
    return [
        (path, sorted(handler.http_methods))
        for handler in ROUTES
        for path in handler.paths
        if not path.endswith(("/poll", "/metrics", "/openapi.json"))
    ]
