"""Logging in to a broker: which request comes next, and whether the answer is right; no socket.

A generator yields requests and is sent their answers: connections that block and those that do not
run the same one (`SaslHandshake` and `SaslAuthenticate`, KIP-43 and KIP-152).
"""

import contextlib
import re
from collections.abc import Generator
from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse

from goqueue.model.client_security import OAUTHBEARER, PLAIN, ClientSecurity
from goqueue.model.security.errors import AuthenticationFailed

Question = tuple[
    SaslHandshakeRequest | SaslAuthenticateRequest,
    type[SaslHandshakeResponse] | type[SaslAuthenticateResponse],
]
Answer = SaslHandshakeResponse | SaslAuthenticateResponse
LogIn = Generator[Question, Answer, None]
_Exchange = Generator[bytes, bytes, None]

# RFC 7628: bytes that keep the fields of OAUTHBEARER apart, and end its error message.
_SEPARATOR: Final = b"\x01"
# A broker may ask for many, and a client would work for it (RFC 7677 asks for 4,096 and more).
_ITERATIONS_MAX: Final = 1_000_000
_ITERATIONS: Final = re.compile(r",i=(\d{1,10})(?:,|$)")


def log_in(security: ClientSecurity) -> LogIn:
    """`AuthenticationFailed` if the broker refuses, or does not know the password itself."""
    mechanism = security.sasl_mechanism
    if mechanism is None:
        return
    offered = yield SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse
    assert isinstance(offered, SaslHandshakeResponse)
    if offered.error_code is not ErrorCode.none:
        known = ", ".join(offered.mechanisms) or "none"
        raise AuthenticationFailed(
            f"the broker does not take log-ins by {mechanism}; those it takes: {known}"
        )
    exchange = _exchange(security, mechanism)
    sent = next(exchange)
    while True:
        answer = yield SaslAuthenticateRequest(auth_bytes=sent), SaslAuthenticateResponse
        assert isinstance(answer, SaslAuthenticateResponse)
        if answer.error_code is not ErrorCode.none:
            raise AuthenticationFailed(answer.error_message or "the broker refused the log-in")
        try:
            sent = exchange.send(answer.auth_bytes)
        except StopIteration:
            return


def _exchange(security: ClientSecurity, mechanism: str) -> _Exchange:
    if mechanism == PLAIN:
        return _plain(security)
    return _bearer(security) if mechanism == OAUTHBEARER else _scram(security, mechanism)


def _plain(security: ClientSecurity) -> _Exchange:
    """RFC 4616."""
    yield f"\0{security.username}\0{security.password}".encode()


def _bearer(security: ClientSecurity) -> _Exchange:
    """RFC 7628. A refusal comes as a message, which is answered before the broker says so."""
    told = yield b"n,,\x01auth=Bearer " + security.token.encode() + _SEPARATOR * 2
    if told:
        yield _SEPARATOR


def _scram(security: ClientSecurity, mechanism: str) -> _Exchange:
    """RFC 5802."""
    from scramp import ScramClient, ScramException

    try:
        client = ScramClient([mechanism], security.username, security.password)
        first = (yield client.get_client_first().encode()).decode()
        asked = _ITERATIONS.search(first)
        if asked is not None and int(asked[1]) > _ITERATIONS_MAX:
            raise AuthenticationFailed(
                f"the broker asks for {asked[1]} iterations, more than {_ITERATIONS_MAX}"
            )
        client.set_server_first(first)
        last = (yield client.get_client_final().encode()).decode()
        client.set_server_final(last)
    except (ScramException, UnicodeDecodeError) as error:
        raise AuthenticationFailed(
            f"what answers the log-in of {security.username!r} does not know its password, or is "
            f"no broker ({type(error).__name__})"
        ) from None


def first_question(login: LogIn) -> Question | None:
    """None: there is nothing to say."""
    with contextlib.suppress(StopIteration):
        return next(login)
    return None


def next_question(login: LogIn, answer: Answer) -> Question | None:
    """None: it is done."""
    with contextlib.suppress(StopIteration):
        return login.send(answer)
    return None
