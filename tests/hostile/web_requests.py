"""HTTP/1.1 requests as bytes: for the three doors that share the HTTP port."""

import random
from typing import Final

from tests.hostile.bursts import Burst
from tests.hostile.mutations import mutated

JSON: Final = "application/json"
# Enough for the parser to go on to what is behind the request line.
_LINE_BYTES: Final = 20
PIPELINED: Final = 200
HOSTS: Final = ("127.0.0.1", "localhost", "evil.example", "", "127.0.0.1:1", "[::1]", "a" * 300)


def request(
    method: str,
    path: str,
    body: bytes = b"",
    kind: str = JSON,
    *extra: str,
    host: str = "127.0.0.1",
) -> bytes:
    head = [f"{method} {path} HTTP/1.1", f"Host: {host}", *extra]
    if body or method in ("POST", "PUT", "PATCH"):
        head += [f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
    return "\r\n".join((*head, "", "")).encode() + body


def deep(depth: int, inner: str = "1") -> bytes:
    return ("[" * depth + inner + "]" * depth).encode()


def burst_of(chance: random.Random, requests: list[bytes]) -> Burst:
    """Whole ones, most of them; the last is damaged, and ends the connection as a rule."""
    chosen = chance.choices(requests, k=chance.randrange(1, 25))
    kind = chance.random()
    if kind < 0.03:
        chosen = [chance.choice(requests)] * PIPELINED
    elif kind < 0.6:
        begin = 0 if chance.random() < 0.2 else _LINE_BYTES
        chosen.append(mutated(chance, chance.choice(requests), begin))
    elif kind < 0.7:
        # No end of chunks.
        chosen.append(
            b"POST /topics/hostile-0/messages HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            + b"400\r\n%s\r\n"
            % (b"x" * 1024)
            * chance.randrange(1, 30)
        )
    return Burst(b"".join(chosen), len(chosen))
