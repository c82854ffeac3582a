"""Log-in on Kafka's door: what is answered before, how it fails, and how it ends."""

import asyncio
import base64
import gc
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from weakref import ref

import pytest

from goqueue.broker.node import Node
from goqueue.broker.security import guesses
from goqueue.doors.kafka import KafkaDoor
from goqueue.doors.kafka.sasl.connection import SecuredConnection
from goqueue.model.broker_config import broker_config
from goqueue.model.calls import CALL_API_KEY, FORGET
from goqueue.model.security.users import BROKERS_USER
from goqueue.service.broker_service import BrokerService
from goqueue.state.security.sasl.oauthbearer import INVALID_TOKEN
from goqueue.state.security.sasl.scram_server import Claim
from goqueue.state.security.scram import HASHES, SHA_256, SHA_512, make_record
from tests.callers import ANYONE
from tests.jwt_issuer import AUDIENCE, ISSUER, ec_key, key_set, public, token
from tests.unit.doors.kafka.sasl_client import choose, log_in, log_in_plain, say
from tests.unit.doors.kafka.secured import Clock, secured_broker, without_rules
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio

FAILED, UNSUPPORTED, ILLEGAL = 58, 33, 34
LogIn = Callable[[WireClient, str, str], Awaitable[Any]]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def settings() -> dict[str, str]:
    return {"connection.failed.authentication.delay.ms": "1"}


@pytest.fixture
async def broker(tmp_path: Path, settings: dict[str, str], clock: Clock) -> AsyncIterator[Node]:
    async with secured_broker(tmp_path, settings, clock) as opened:
        yield opened


async def is_open(client: WireClient) -> bool:
    try:
        answer = await client.call("metadata", 12, topics=[])
    except (asyncio.IncompleteReadError, ConnectionError):
        return False
    return answer.cluster_id is not None


async def create_topic(client: WireClient) -> None:
    created = await client.call(
        "create_topics", 5, topics=[{"name": "t", "num_partitions": 1, "replication_factor": 1}]
    )
    assert created.topics[0].error_code.value == 0


def is_waiting(connection: object) -> bool:
    return isinstance(connection, SecuredConnection) and connection.is_waiting


def fetch(client: WireClient) -> None:
    """Wait for messages that do not come."""
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000}
    client.send(
        "fetch",
        11,
        max_wait=60_000,
        min_bytes=1,
        max_bytes=1_000,
        session_epoch=-1,
        topics=[{"topic": "t", "partitions": [partition]}],
    )


# --- logging in ---------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", list(HASHES))
@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_user_logs_in_by_scram(client: WireClient, mechanism: str, version: int) -> None:
    answer = await log_in(client, "alice", "alice's", mechanism, version=version)
    assert answer.error_code.value == 0
    assert await is_open(client)


@pytest.mark.parametrize("name", ["alice", "nobody", BROKERS_USER, "__other"])
@pytest.mark.parametrize("mechanism", list(HASHES))
async def test_who_fails_is_told_the_same_and_sent_away(
    client: WireClient, broker: Node, name: str, mechanism: str
) -> None:
    answer = await log_in(client, name, "wrong", mechanism)
    assert answer.error_code.value == FAILED
    assert answer.error_message == (
        f"authentication failed: invalid credentials with SASL mechanism {mechanism}"
    )
    assert await client.is_closed_by_broker()
    assert +broker.traffic.kafka.authentications == {(mechanism, "failure"): 1}


async def test_who_is_not_there_has_the_same_salt_every_time(door: KafkaDoor) -> None:
    seen = []
    for name in ("alice", "alice", "nobody", "nobody", "nobody2"):
        client = await WireClient.connect(*door.address)
        await choose(client, SHA_256)
        first = (await say(client, f"n,,n={name},r=abc".encode())).auth_bytes.decode()
        client.close()
        _, salt, iterations = first.split(",")
        seen.append((salt, len(salt), iterations))
    assert seen[0] == seen[1]
    assert seen[2] == seen[3] != seen[4]
    assert len({each[1:] for each in seen}) == 1


async def test_who_is_not_there_may_look_like_users_of_kafkas_tools(
    door: KafkaDoor, broker: Node
) -> None:
    """Which have longer salts and may have more iterations; either would tell who is there."""
    record = make_record(SHA_256, "dave's", salt=b"s" * 26, iterations=8_192)
    await without_rules(broker).users.alter_scram(ANYONE, "dave", {SHA_256: record})
    seen = set()
    for number in range(40):
        client = await WireClient.connect(*door.address)
        await choose(client, SHA_256)
        first = (await say(client, f"n,,n=nobody{number},r=abc".encode())).auth_bytes.decode()
        client.close()
        _, salt, iterations = first.split(",")
        seen.add((len(base64.b64decode(salt[2:])), iterations))
    assert seen == {(16, "i=4096"), (26, "i=8192")}


async def test_plain_from_this_machine(client: WireClient, door: KafkaDoor, broker: Node) -> None:
    assert (await log_in_plain(client, "alice", "alice's")).error_code.value == 0
    assert await is_open(client)
    for name, password in (("alice", "bob's"), ("nobody", "x"), ("alice", "")):
        other = await WireClient.connect(*door.address)
        answer = await log_in_plain(other, name, password)
        assert answer.error_code.value == FAILED
        assert "PLAIN" in answer.error_message
        assert await other.is_closed_by_broker()
    assert +broker.traffic.kafka.authentications == {
        ("PLAIN", "success"): 1,
        ("PLAIN", "failure"): 3,
    }


@pytest.mark.parametrize("by", [log_in, log_in_plain])
@pytest.mark.parametrize("name", ["alice", "nobody"])
async def test_who_guesses_is_cut_off_and_comes_again(
    door: KafkaDoor, broker: Node, monkeypatch: pytest.MonkeyPatch, by: LogIn, name: str
) -> None:
    """Clients give up after any answer that is not a success."""
    monkeypatch.setattr(guesses, "TURNS_PER_SECOND", 1e-9)
    monkeypatch.setattr(guesses, "PATIENCE_S", 0.01)
    for number in range(guesses.ACCOUNT_BURST):
        client = await WireClient.connect(*door.address)
        assert (await by(client, name, f"guess {number}")).error_code.value == FAILED
        client.close()
    client = await WireClient.connect(*door.address)
    with pytest.raises(asyncio.IncompleteReadError):
        await by(client, name, f"{name}'s")
    # What brokers prove nobody guesses.
    client = await WireClient.connect(*door.address)
    secret = broker.security.master_key.secret("brokers", "").hex()
    assert (await log_in(client, BROKERS_USER, secret)).error_code.value == 0


async def test_guesses_from_elsewhere_hold_up_nobody_who_was_seen_here(
    door: KafkaDoor, client: WireClient, broker: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guesses, "TURNS_PER_SECOND", 1e-9)
    assert (await log_in(client, "alice", "alice's")).error_code.value == 0
    for number in range(guesses.ACCOUNT_BURST):
        await broker.security.guesses.turn("alice", f"192.0.2.{number}")
    again = await WireClient.connect(*door.address)
    assert (await log_in(again, "alice", "alice's")).error_code.value == 0


async def test_a_mechanism_that_is_not_offered(client: WireClient) -> None:
    answer = await choose(client, "OAUTHBEARER")
    assert answer.error_code.value == UNSUPPORTED
    assert answer.mechanisms == (SHA_256, SHA_512, "PLAIN")
    assert await client.is_closed_by_broker()


async def test_tokens_as_frames_of_their_own(door: KafkaDoor) -> None:
    client = await WireClient.connect(*door.address)
    assert (await choose(client, "PLAIN", version=0)).error_code.value == 0
    token = b"\0alice\0alice's"
    client.writer.write(struct.pack(">i", len(token)) + token)
    assert await client.receive_frame() == b""
    assert await is_open(client)
    client.close()
    wrong = await WireClient.connect(*door.address)
    await choose(wrong, "PLAIN", version=0)
    token = b"\0alice\0bob's"
    wrong.writer.write(struct.pack(">i", len(token)) + token)
    assert await wrong.is_closed_by_broker()


# --- before -------------------------------------------------------------------------------


async def test_before_log_in_versions_are_told_and_nothing_else(client: WireClient) -> None:
    answer = await client.call(
        "api_versions", 3, client_software_name="a", client_software_version="1"
    )
    assert {17, 18, 36} <= {each.api_key for each in answer.api_keys}
    client.send("metadata", 12, topics=None)
    assert await client.is_closed_by_broker()


@pytest.mark.parametrize("api_key", [0, 1, 3, 10, 50, 51, CALL_API_KEY, 999])
async def test_any_other_request_before_log_in_ends_the_connection(
    client: WireClient, api_key: int
) -> None:
    body = struct.pack(">hhih", api_key, 0, 1, -1)
    client.writer.write(struct.pack(">i", len(body)) + body)
    assert await client.is_closed_by_broker()


async def test_frames_before_log_in_are_small(client: WireClient) -> None:
    await choose(client, "PLAIN")
    client.send("sasl_authenticate", 2, auth_bytes=b"x" * 70_000)
    assert await client.is_closed_by_broker()


@pytest.mark.parametrize("version", [0, 1])
async def test_a_log_in_again_is_as_small_as_the_first(
    client: WireClient, door: KafkaDoor, broker: Node, version: int
) -> None:
    await log_in_plain(client, "carol", "carol's")
    await choose(client, "PLAIN", version)
    token = b"\0carol\0" + b"x" * 70_000
    if version:
        client.send("sasl_authenticate", 2, auth_bytes=token)
    else:
        client.writer.write(struct.pack(">i", len(token)) + token)
    assert await client.is_closed_by_broker()
    # It was not even looked at.
    assert +broker.traffic.kafka.authentications == {("PLAIN", "success"): 1}


@pytest.mark.parametrize("frame", [b"", b"x"])
@pytest.mark.parametrize("name", [None, "carol"])
async def test_a_frame_of_nothing_ends_the_connection(
    client: WireClient, name: str | None, frame: bytes
) -> None:
    told: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    if name is not None:
        await log_in(client, name, f"{name}'s")
    client.writer.write(struct.pack(">i", len(frame)) + frame)
    assert await client.is_closed_by_broker()
    assert not told


async def test_what_comes_after_log_in_may_be_larger(client: WireClient) -> None:
    await log_in(client, "alice", "alice's")
    topics = [{"name": f"{number:050d}", "topic_id": None} for number in range(2_000)]
    answer = await client.call("metadata", 12, topics=topics, allow_auto_topic_creation=False)
    assert len(answer.topics) == 2_000


async def test_a_proof_out_of_turn(client: WireClient, door: KafkaDoor) -> None:
    answer = await say(client, b"n,,n=alice,r=abc")
    assert answer.error_code.value == ILLEGAL
    assert await client.is_closed_by_broker()
    twice = await WireClient.connect(*door.address)
    await choose(twice, SHA_256)
    assert (await choose(twice, SHA_256)).error_code.value == ILLEGAL
    assert await twice.is_closed_by_broker()


async def test_guesses_behind_a_failure_are_not_heard(client: WireClient) -> None:
    await choose(client, "PLAIN")
    expected = [
        client.send("sasl_authenticate", 2, auth_bytes=f"\0alice\0{guess}".encode())
        for guess in ("1", "2", "alice's")
    ]
    answers = [await client.receive(*each) for each in expected]
    assert [each.error_code.value for each in answers] == [FAILED, ILLEGAL, ILLEGAL]
    assert await client.is_closed_by_broker()


class TestWhoDoesNotLogIn:
    @pytest.fixture
    def settings(self) -> dict[str, str]:
        return {"sasl.login.timeout.ms": "100"}

    async def test_is_sent_away_after_a_while(self, client: WireClient, door: KafkaDoor) -> None:
        await choose(client, SHA_256)
        assert await client.is_closed_by_broker()
        stays = await WireClient.connect(*door.address)
        assert (await log_in(stays, "alice", "alice's")).error_code.value == 0
        late = await WireClient.connect(*door.address)
        assert await late.is_closed_by_broker()
        assert await is_open(stays)
        stays.close()


# --- brokers ------------------------------------------------------------------------------


async def test_brokers_log_in_by_the_master_key(client: WireClient, broker: Node) -> None:
    password = broker.security.master_key.secret("brokers", "").hex()
    assert (await log_in(client, BROKERS_USER, password)).error_code.value == 0
    assert await is_open(client)


async def test_brokers_log_in_by_sha_256_alone(client: WireClient, broker: Node) -> None:
    password = broker.security.master_key.secret("brokers", "").hex()
    assert (await log_in(client, BROKERS_USER, password, SHA_512)).error_code.value == FAILED


async def test_calls_are_for_brokers_alone(
    client: WireClient, door: KafkaDoor, broker: Node
) -> None:
    body = struct.pack(">hhih", CALL_API_KEY, FORGET, 1, -1)
    call = struct.pack(">i", len(body)) + body
    await log_in(client, "alice", "alice's")
    client.writer.write(call)
    assert await client.is_closed_by_broker()
    peer = await WireClient.connect(*door.address)
    await log_in(peer, BROKERS_USER, broker.security.master_key.secret("brokers", "").hex())
    peer.writer.write(call)
    async with asyncio.timeout(10):
        while not any(each.is_brokers for each in door.connections):
            await asyncio.sleep(0.01)
    peer.close()


async def test_a_mechanism_of_brokers_alone_is_no_way_in_for_users(broker: Node) -> None:
    records = broker.security.scram_records
    for name, is_anybody in ((BROKERS_USER, True), ("alice", False), ("nobody", False)):
        found = await records.find(SHA_256, Claim(name, is_token=False), brokers_only=True)
        assert (found.login is not None) == is_anybody


class TestOneMechanism:
    @pytest.fixture
    def settings(self) -> dict[str, str]:
        return {"sasl.enabled.mechanisms": "PLAIN"}

    async def test_others_are_refused(self, client: WireClient) -> None:
        answer = await choose(client, SHA_256)
        assert answer.error_code.value == UNSUPPORTED
        assert answer.mechanisms == ("PLAIN",)


# --- again, and no longer -----------------------------------------------------------------


class TestSessions:
    @pytest.fixture
    def settings(self) -> dict[str, str]:
        return {
            "connections.max.reauth.ms": "5000",
            "connection.failed.authentication.delay.ms": "1",
        }

    async def test_a_client_logs_in_again_in_time(self, client: WireClient, clock: Clock) -> None:
        answer = await log_in(client, "alice", "alice's")
        assert answer.session_lifetime.total_seconds() == 5
        clock.now_ms += 4_000
        assert await is_open(client)
        answer = await log_in(client, "alice", "alice's")
        assert answer.session_lifetime.total_seconds() == 5
        clock.now_ms += 4_000
        assert await is_open(client)

    async def test_too_late_it_may_log_in_and_nothing_else(
        self, client: WireClient, door: KafkaDoor, clock: Clock
    ) -> None:
        await log_in(client, "alice", "alice's")
        other = await WireClient.connect(*door.address)
        await log_in(other, "alice", "alice's")
        clock.now_ms += 5_000
        assert not await is_open(client)
        assert (await log_in(other, "alice", "alice's")).error_code.value == 0
        assert await is_open(other)
        other.close()

    @pytest.mark.parametrize(("name", "password"), [("bob", "bob's"), ("alice", "wrong")])
    async def test_it_stays_who_it_was(self, client: WireClient, name: str, password: str) -> None:
        await log_in(client, "alice", "alice's")
        assert (await log_in(client, name, password)).error_code.value == FAILED
        assert await client.is_closed_by_broker()

    async def test_by_the_same_mechanism(self, client: WireClient) -> None:
        await log_in(client, "alice", "alice's")
        assert (await choose(client, SHA_512)).error_code.value == UNSUPPORTED
        assert await client.is_closed_by_broker()


class TestShortSessions:
    @pytest.fixture
    def settings(self) -> dict[str, str]:
        return {"connections.max.reauth.ms": "100"}

    async def test_who_waits_when_its_log_in_ends_is_given_nothing(
        self, client: WireClient, door: KafkaDoor, clock: Clock
    ) -> None:
        await log_in(client, "alice", "alice's")
        await create_topic(client)
        idle = await WireClient.connect(*door.address)
        await log_in(idle, "alice", "alice's")
        fetch(client)
        # The bar: within a second, of the thirty that it would wait for.
        async with asyncio.timeout(20):
            while not any(is_waiting(each) for each in door._services.sasl._open):
                await asyncio.sleep(0)
            clock.now_ms += 100
            assert await client.is_closed_by_broker()
        # As in Kafka, who does not wait may log in again.
        assert (await log_in(idle, "alice", "alice's")).error_code.value == 0
        assert await is_open(idle)
        idle.close()


async def test_without_a_bound_there_is_no_lifetime(client: WireClient, clock: Clock) -> None:
    assert (await log_in(client, "alice", "alice's")).session_lifetime.total_seconds() == 0
    clock.now_ms += 10**12
    assert await is_open(client)


async def test_who_is_deleted_is_gone_within_a_second(
    client: WireClient, door: KafkaDoor, broker: Node
) -> None:
    await log_in(client, "alice", "alice's")
    waits, stays = [await WireClient.connect(*door.address) for _ in range(2)]
    await log_in(waits, "alice", "alice's")
    await log_in(stays, "bob", "bob's")
    await create_topic(waits)
    fetch(waits)
    await without_rules(broker).users.delete(ANYONE, "alice")
    async with asyncio.timeout(1):
        assert not await is_open(client)
        # The fetch that waits may be refused first.
        await waits.reader.read()
        assert waits.reader.at_eof()
    assert await is_open(stays)
    stays.close()


async def test_who_is_deleted_and_made_anew_is_somebody_else(
    client: WireClient, broker: Node, clock: Clock
) -> None:
    """As one does with a password that was seen; however quickly."""
    users = without_rules(broker).users
    await log_in(client, "alice", "alice's")
    clock.now_ms += 10
    await users.delete(ANYONE, "alice")
    await users.create(ANYONE, "alice", "another", is_admin=True)
    async with asyncio.timeout(1):
        assert await client.is_closed_by_broker()


class TestTokensOfAnIdentityProvider:
    @pytest.fixture
    def settings(self, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
        file = tmp_path_factory.mktemp("provider") / "keys.json"
        file.write_text(key_set(public(ec_key(), "one")))
        return {
            "connection.failed.authentication.delay.ms": "1",
            "oauth.jwks.file": str(file),
            "oauth.issuer": ISSUER,
            "oauth.audience": AUDIENCE,
        }

    @pytest.mark.parametrize("says_that_it_heard", [True, False])
    async def test_one_that_is_refused_is_counted_once(
        self, client: WireClient, broker: Node, says_that_it_heard: bool
    ) -> None:
        await choose(client, "OAUTHBEARER")
        forged = token(ec_key(), "one", "ES256")
        answer = await say(client, f"n,,\x01auth=Bearer {forged}\x01\x01".encode())
        assert answer.auth_bytes == INVALID_TOKEN
        if says_that_it_heard:
            assert (await say(client, b"\x01")).error_code.value == FAILED
        assert +broker.traffic.kafka.authentications == {("OAUTHBEARER", "failure"): 1}


async def test_nothing_is_kept_of_a_connection_that_is_gone(door: KafkaDoor) -> None:
    clients = [await WireClient.connect(*door.address) for _ in range(5)]
    for client in clients:
        await log_in(client, "alice", "alice's")
    opened = [ref(each) for each in door.connections]
    for client in clients:
        client.close()
    async with asyncio.timeout(10):
        while any(each() is not None for each in opened):
            await asyncio.sleep(0.01)
            gc.collect()


async def test_while_security_is_off_nobody_logs_in(tmp_path: Path) -> None:
    node = await Node.open(broker_config({"data.dir": str(tmp_path), "kafka.port": "0"}))
    opened = KafkaDoor(BrokerService(node), node.config)
    client = await WireClient.connect(*await opened.start())
    await node.announce(*opened.address, 0)
    assert (await choose(client, SHA_256)).error_code.value == ILLEGAL
    assert (await say(client, b"n,,n=alice,r=abc")).error_code.value == ILLEGAL
    assert await is_open(client)
    client.close()
    await opened.stop()
    await node.close()
