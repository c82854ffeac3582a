"""Who guesses passwords waits for its turn; who knows its password does not."""

import asyncio
from collections.abc import Awaitable

import pytest

from goqueue.broker.security import guesses as module
from goqueue.broker.security import passwords as passwords_module
from goqueue.broker.security.guesses import (
    ACCOUNT_BURST,
    ADDRESS_BURST,
    WAITING_FROM_ADDRESS_MAX,
    WAITING_MAX,
    Guesses,
    network_of,
)
from goqueue.broker.security.passwords import Passwords
from goqueue.model.security.errors import TooManyLogIns
from goqueue.model.security.users import ScramRecord, User

pytestmark = pytest.mark.anyio

RECORD = ScramRecord(salt=b"salt", iterations=4_096, stored_key=b"alice's", server_key=b"")
ALICE = User(name="alice", scram={"SCRAM-SHA-256": RECORD})
SERVER = "192.0.2.1"


@pytest.fixture
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is used up stays so, and nobody waits in vain."""
    monkeypatch.setattr(module, "TURNS_PER_SECOND", 1e-9)
    monkeypatch.setattr(module, "PATIENCE_S", 0.01)


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Passwords that were hashed. `right` is that of all users."""
    found: list[str] = []

    def fits(_mechanism: str, record: ScramRecord, password: str) -> bool:
        found.append(password)
        return password == "right" and record is RECORD

    monkeypatch.setattr(passwords_module, "fits", fits)
    return found


async def outcomes(*asked: Awaitable[bool]) -> list[object]:
    return list(await asyncio.gather(*asked, return_exceptions=True))


@pytest.mark.usefixtures("no_time")
@pytest.mark.parametrize("user", [ALICE, None])
async def test_one_account_is_guessed_at_slowly_from_wherever(
    tried: list[str], user: User | None
) -> None:
    passwords = Passwords(Guesses())
    answers = await outcomes(
        *(
            passwords.fits("alice", user, f"guess {number}", address=f"198.51.100.{number}")
            for number in range(ACCOUNT_BURST + 100)
        )
    )
    assert len(tried) == ACCOUNT_BURST
    assert answers.count(False) == ACCOUNT_BURST
    assert sum(isinstance(each, TooManyLogIns) for each in answers) == 100


@pytest.mark.usefixtures("no_time")
async def test_one_address_guesses_slowly_at_whomever(tried: list[str]) -> None:
    passwords = Passwords(Guesses())
    answers = await outcomes(
        *(
            passwords.fits(f"user {number}", None, "right", address=SERVER)
            for number in range(ADDRESS_BURST + 100)
        )
    )
    assert len(tried) == ADDRESS_BURST
    assert sum(isinstance(each, TooManyLogIns) for each in answers) == 100
    # Others are let in meanwhile.
    assert await passwords.fits("alice", ALICE, "right", address="192.0.2.2")


@pytest.mark.usefixtures("no_time")
async def test_who_is_known_is_not_held_up_by_guesses(tried: list[str]) -> None:
    passwords = Passwords(Guesses())
    assert await passwords.fits("alice", ALICE, "right", address=SERVER)
    for number in range(ADDRESS_BURST + ACCOUNT_BURST):
        await outcomes(passwords.fits("alice", ALICE, f"guess {number}", address=SERVER))
    tried.clear()
    assert await passwords.fits("alice", ALICE, "right", address=SERVER)
    assert tried == []
    # Elsewhere it would be a guess that waits for nothing.
    with pytest.raises(TooManyLogIns):
        await passwords.fits("alice", ALICE, "right", address="192.0.2.2")


@pytest.mark.usefixtures("no_time")
async def test_right_passwords_use_no_turns_up(tried: list[str]) -> None:
    passwords = Passwords(Guesses())
    for number in range(ADDRESS_BURST + 10):
        name = f"user {number}"
        assert await passwords.fits(name, User(name=name, scram=ALICE.scram), "right", address="")
        assert await passwords.fits("alice", ALICE, "right", address=f"192.0.2.{number}")
    assert len(tried) == 2 * (ADDRESS_BURST + 10)


@pytest.mark.usefixtures("no_time")
async def test_the_same_password_at_once_is_tried_once(tried: list[str]) -> None:
    passwords = Passwords(Guesses())
    for password, expected in (("right", True), ("wrong", False)):
        tried.clear()
        asked = (passwords.fits("alice", ALICE, password, address=SERVER) for _ in range(500))
        assert await outcomes(*asked) == [expected] * 500
        assert tried == [password]


async def test_who_left_leaves_its_turn_to_others(tried: list[str]) -> None:
    guesses = Guesses()
    passwords = Passwords(guesses)
    asking = asyncio.create_task(passwords.fits("alice", ALICE, "right", address=SERVER))
    await asyncio.sleep(0)
    following = asyncio.create_task(passwords.fits("alice", ALICE, "right", address=SERVER))
    await asyncio.sleep(0)
    asking.cancel()
    assert await following


async def test_turns_come_one_by_one_and_to_other_addresses_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "TURNS_PER_SECOND", 1e-9)
    monkeypatch.setattr(module, "PATIENCE_S", 60.0)
    guesses = Guesses()
    order: list[str] = []

    async def guess(address: str) -> None:
        await guesses.turn("alice", address)
        order.append(address)

    flood = [SERVER] * (ACCOUNT_BURST + WAITING_FROM_ADDRESS_MAX + 50)
    asked = [asyncio.create_task(guess(each)) for each in (*flood, "192.0.2.2")]
    await asyncio.sleep(0)
    refused = [each for each in asked if each.done() and each.exception() is not None]
    assert len(refused) == 50
    assert len(order) == ACCOUNT_BURST
    for _ in range(WAITING_FROM_ADDRESS_MAX + 1):
        guesses.was_right("alice", "192.0.2.7")
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(each, TooManyLogIns) for each in answers) == 50
    # First of all who waited.
    assert order.index("192.0.2.2") == ACCOUNT_BURST


async def test_the_next_turn_is_that_of_whom_the_least_was_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "TURNS_PER_SECOND", 1e-9)
    monkeypatch.setattr(module, "PATIENCE_S", 60.0)
    # None of two hundred addresses shares a bucket with the newcomer, by chance.
    monkeypatch.setattr(module, "BUCKETS", 2**60)
    guesses = Guesses()
    guessing = [f"10.0.{number % 256}.{number // 256}" for number in range(WAITING_MAX)]
    for _ in range(2):
        for address in guessing:
            guesses.was_wrong("alice", address)
    flood = [asyncio.create_task(guesses.turn("alice", each)) for each in guessing]
    await asyncio.sleep(0)
    newcomer = asyncio.create_task(guesses.turn("alice", "192.0.2.9"))
    # One of them makes room for it.
    done, _ = await asyncio.wait(flood, return_when=asyncio.FIRST_COMPLETED)
    assert len(done) == 1
    assert not newcomer.done()
    for _ in range(ACCOUNT_BURST + 2):
        guesses.was_right("alice", "192.0.2.7")
    await newcomer
    for each in flood:
        each.cancel()
    answers = await asyncio.gather(*flood, return_exceptions=True)
    assert sum(isinstance(each, TooManyLogIns) for each in answers) == 1


@pytest.mark.usefixtures("no_time")
async def test_so_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 60.0)
    guesses = Guesses()
    # It does not come before others. Of those some may share a place, and what is wrong there.
    for _ in range(20):
        guesses.was_wrong("bob", "192.0.2.9")
    waiting = [
        asyncio.create_task(guesses.turn("alice", f"10.0.{number % 256}.{number // 256}"))
        for number in range(ACCOUNT_BURST + WAITING_MAX)
    ]
    await asyncio.sleep(0)
    with pytest.raises(TooManyLogIns):
        await guesses.turn("alice", "192.0.2.9")
    assert sum(each.done() for each in waiting) == ACCOUNT_BURST
    waiting[-1].cancel()
    await asyncio.wait(waiting[-1:])
    waiting.append(asyncio.create_task(guesses.turn("alice", "192.0.2.9")))
    await asyncio.sleep(0)
    assert not waiting[-1].done()
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


@pytest.mark.usefixtures("no_time")
async def test_proofs_from_where_a_user_was_seen_are_looked_at_at_once() -> None:
    guesses = Guesses()
    assert not guesses.need_no_turn("alice", SERVER)
    guesses.seen("alice", SERVER)
    for _ in range(ACCOUNT_BURST):
        await guesses.turn("alice", "192.0.2.2")
    assert guesses.need_no_turn("alice", SERVER)
    assert not guesses.need_no_turn("alice", "192.0.2.2")
    assert not guesses.need_no_turn("bob", SERVER)
    # Until too much was tried from there.
    for _ in range(ADDRESS_BURST):
        guesses.was_wrong("alice", SERVER)
    assert not guesses.need_no_turn("alice", SERVER)


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("local", "local"),
        ("", ""),
    ],
)
def test_addresses_of_one_network_count_together(address: str, network: str) -> None:
    assert network_of(address) == network
