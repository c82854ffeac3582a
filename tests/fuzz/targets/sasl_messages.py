"""What clients say at log-in over SASL, before anything is known of them.

The first line is the mechanism, the rest is the message. Of SCRAM there are two, with the end of a
line between them.
"""

from collections.abc import Callable, Mapping
from typing import Final

from goqueue.model.security.errors import AuthenticationFailed
from goqueue.model.security.users import ScramRecord
from goqueue.state.security.sasl.oauthbearer import read_bearer
from goqueue.state.security.sasl.plain import read_plain
from goqueue.state.security.sasl.scram_server import ScramServer
from goqueue.state.security.scram import SHA_256, SHA_512
from tests.fuzz.target import Finding, Target, Verdict

SERVER_NONCE: Final = "fuzz"
_RECORD: Final = ScramRecord(
    salt=b"salt", iterations=4_096, stored_key=bytes(32), server_key=bytes(32)
)


def run(data: bytes) -> Verdict:
    mechanism, _, message = data.partition(b"\n")
    read = _READERS.get(mechanism.decode("latin-1"))
    if read is None:
        return None
    try:
        return read(message)
    except AuthenticationFailed as error:
        return error.message


def _plain(message: bytes) -> Verdict:
    found = read_plain(message)
    if read_plain(f"{found.name}\0{found.name}\0{found.password}".encode()) != found:
        raise Finding(f"{found.name!r} is written back as somebody else")
    if repr(found) != f"NameAndPassword(name={found.name!r})":
        raise Finding("a password is shown")
    return found.name, found.password


def _bearer(message: bytes) -> Verdict:
    found = read_bearer(message)
    escaped = found.authzid.replace("=", "=3D").replace(",", "=2C")
    authzid = f"a={escaped}" if escaped else ""
    if read_bearer(f"n,{authzid},\x01auth=Bearer {found.token}\x01\x01".encode()) != found:
        raise Finding(f"{found} is written back as another one")
    return found.token, found.authzid


def _scram(mechanism: str) -> Callable[[bytes], Verdict]:
    def read(messages: bytes) -> Verdict:
        first, _, final = messages.partition(b"\n")
        server = ScramServer(mechanism)
        claim = server.claim(first)
        escaped = claim.name.replace("=", "=3D").replace(",", "=2C")
        if ScramServer(mechanism).claim(f"n,,n={escaped},r=x".encode()).name != claim.name:
            raise Finding(f"{claim} is written back as somebody else")
        challenge = server.challenge(_RECORD, SERVER_NONCE)
        try:
            said = server.finish(final)
        except AuthenticationFailed as error:
            return claim, challenge, error.message
        raise Finding(f"nobody knows the key, and was told {said!r}")

    return read


_READERS: Final[Mapping[str, Callable[[bytes], Verdict]]] = {
    "PLAIN": _plain,
    "OAUTHBEARER": _bearer,
    SHA_256: _scram(SHA_256),
    SHA_512: _scram(SHA_512),
}

TARGET: Final = Target(
    name="sasl_messages",
    promise="a log-in's messages are read or refused; names are written back the same",
    run=run,
)
