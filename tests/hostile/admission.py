"""How the canary and hostile clients get into a broker with TLS and log-ins.

The canary is an administrator. Hostile clients have a user that may do everything with topics and
groups of their own, and nothing else; many of them do not log in, and some do not speak TLS.
"""

import base64
import http.client
import json
import os
import random
import ssl
import struct
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

from goqueue.model.client_security import NO_SECURITY, ClientSecurity
from goqueue.testing import ServerProcess
from goqueue.testing.secured_clients import ADMIN, ADMIN_PASSWORD
from tests.hostile.bursts import Burst

# Where children of the soak find it; not there: the broker has neither TLS nor log-ins.
VARIABLE: Final = "HOSTILE_ADMISSION"
USER: Final = "hostile"
PASSWORD: Final = "a hostile user's password"
# Of hostile connections.
WITHOUT_TLS: Final = 0.05
LOGGED_IN: Final = 0.7
_ANSWER_SECONDS: Final = 60
_HANDSHAKE, _AUTHENTICATE = 17, 36


@dataclass(frozen=True)
class Admission:
    ca_file: str
    sqs_key_id: str
    sqs_secret: str

    @classmethod
    def make(cls, server: ServerProcess, folder: Path) -> None:
        """Make the users, and write down for the children how they get in."""
        everything = {"name": "*", "operation": "all"}
        server.create_user(
            USER,
            PASSWORD,
            rules=(
                *(
                    {**everything, "resource": "topic", "pattern": "prefixed", "name": name}
                    for name in ("hostile", "wide", "bombs", "fleeting")
                ),
                *({**everything, "resource": each} for each in ("group", "transactional_id")),
                {**everything, "resource": "subject"},
                {"resource": "cluster", "name": "kafka-cluster", "operation": "describe"},
            ),
        )
        assert server.secured is not None
        key = server.sqs_client_kwargs()
        made = cls(server.secured.ca_file, key["aws_access_key_id"], key["aws_secret_access_key"])
        path = folder / "admission.json"
        path.write_text(json.dumps(asdict(made)))
        os.environ[VARIABLE] = str(path)

    @classmethod
    def found(cls) -> Self | None:
        path = os.environ.get(VARIABLE)
        return None if path is None else cls(**json.loads(Path(path).read_text()))

    @property
    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.ca_file)

    # --- the canary's ---------------------------------------------------------------------

    @property
    def client_security(self) -> ClientSecurity:
        return ClientSecurity(
            tls=True, ca_file=self.ca_file, username=ADMIN, password=ADMIN_PASSWORD
        )

    def headers(self, url: str, path: str, body: bytes, headers: dict[str, str]) -> dict[str, str]:
        """With what logs in: a signature for SQS, else a password."""
        if "X-Amz-Target" not in headers:
            return {**headers, "Authorization": basic(ADMIN, ADMIN_PASSWORD)}
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials

        request: Any = AWSRequest("POST", url + path, dict(headers), body)
        credentials = Credentials(self.sqs_key_id, self.sqs_secret)
        SigV4Auth(credentials, "sqs", "us-east-1").add_auth(request)
        return dict(request.headers)


class WebClient:
    """Asks by JSON, over whatever the broker speaks, as an administrator."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._admission = Admission.found()
        place = urlsplit(url).netloc
        self.connection = (
            http.client.HTTPConnection(place, timeout=_ANSWER_SECONDS)
            if self._admission is None
            else http.client.HTTPSConnection(
                place, timeout=_ANSWER_SECONDS, context=self._admission.tls
            )
        )

    def ask(
        self, method: str, path: str, body: object, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        data = b"" if body is None else json.dumps(body).encode()
        if self._admission is not None:
            headers = self._admission.headers(self._url, path, data, headers)
        self.connection.request(method, path, data or None, headers)
        answer = self.connection.getresponse()
        return answer.status, answer.read()


def canary_security() -> ClientSecurity:
    admission = Admission.found()
    return NO_SECURITY if admission is None else admission.client_security


# --- of hostile clients -------------------------------------------------------------------


class Entrance:
    """How the next hostile connection comes in."""

    def __init__(self, door: str, chance: random.Random) -> None:
        self._door = door
        self._chance = chance
        admission = Admission.found()
        self._tls = None if admission is None else admission.tls

    def tls(self) -> ssl.SSLContext | None:
        return self._tls if self._chance.random() > WITHOUT_TLS else None

    def first(self) -> Burst | None:
        """What logs in over Kafka's protocol, which is answered before the first burst."""
        if self._tls is None or self._door != "kafka" or self._chance.random() > LOGGED_IN:
            return None
        proof = f"\0{USER}\0{PASSWORD}".encode()
        handshake = _frame(_HANDSHAKE, struct.pack(">h", 5) + b"PLAIN")
        return Burst(handshake + _frame(_AUTHENTICATE, struct.pack(">i", len(proof)) + proof), 2)

    def admitted(self, burst: Burst) -> Burst:
        """With a password in each request, where that is how one logs in."""
        if self._tls is None or self._door == "kafka" or self._chance.random() > LOGGED_IN:
            return burst
        login = f"\r\nAuthorization: {basic(USER, PASSWORD)}\r\nHost: ".encode()
        return Burst(burst.data.replace(b"\r\nHost: ", login), burst.frames)


def _frame(api_key: int, body: bytes) -> bytes:
    head = struct.pack(">hhih", api_key, 1, 0, -1)
    return struct.pack(">i", len(head) + len(body)) + head + body


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()
