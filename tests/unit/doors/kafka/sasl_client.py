"""Logs in on a wire client's connection, by SCRAM of another implementation or word by word."""

from typing import Any

from scramp import ScramClient

from goqueue.state.security.scram import SHA_256
from tests.unit.doors.kafka.wire_client import WireClient


async def choose(client: WireClient, mechanism: str, version: int = 1) -> Any:
    return await client.call("sasl_handshake", version, mechanism=mechanism)


async def say(client: WireClient, token: bytes, version: int = 2) -> Any:
    return await client.call("sasl_authenticate", version, auth_bytes=token)


async def log_in(
    client: WireClient, name: str, password: str, mechanism: str = SHA_256, *, version: int = 2
) -> Any:
    """The last answer: of the proof, or of what failed before."""
    chosen = await choose(client, mechanism)
    if chosen.error_code.value:
        return chosen
    return await prove(client, name, password, mechanism, version=version)


async def prove(
    client: WireClient,
    name: str,
    password: str,
    mechanism: str = SHA_256,
    *,
    version: int = 2,
    extensions: str = "",
) -> Any:
    scram = ScramClient([mechanism], name, password)
    first = scram.get_client_first()
    if extensions:
        # It has none of its own, but proves whatever it believes to have said.
        scram.client_first_bare += f",{extensions}"
        first += f",{extensions}"
    answer = await say(client, first.encode(), version)
    if answer.error_code.value:
        return answer
    scram.set_server_first(answer.auth_bytes.decode())
    answer = await say(client, scram.get_client_final().encode(), version)
    if not answer.error_code.value:
        scram.set_server_final(answer.auth_bytes.decode())
    return answer


async def log_in_plain(client: WireClient, name: str, password: str) -> Any:
    await choose(client, "PLAIN")
    return await say(client, f"\0{name}\0{password}".encode())
