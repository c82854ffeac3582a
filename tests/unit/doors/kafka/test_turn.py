"""Turns: each step for all connections, and a fault in one of them is its own."""

import asyncio
import logging

import pytest

from goqueue.doors.kafka.turn import Turn

pytestmark = pytest.mark.anyio


class Party:
    def __init__(self, party: str) -> None:
        self.party = party


class Noting:
    quota = Party("")

    def __init__(self, name: str, notes: list[str], fails_in: str = "") -> None:
        self._name = name
        self._notes = notes
        self._fails_in = fails_in

    def _note(self, step: str) -> None:
        self._notes.append(f"{self._name} {step}")
        if step == self._fails_in:
            raise RuntimeError("out of cheese")

    def read_requests(self) -> None:
        self._note("reads")

    def start_requests(self) -> None:
        self._note("starts")

    def send_answers(self) -> None:
        self._note("sends")

    def abort(self) -> None:
        self._note("aborts")


async def test_a_step_is_done_by_all_before_the_next() -> None:
    notes: list[str] = []
    turn = Turn()
    turn.join(Noting("a", notes))
    turn.join(Noting("b", notes))
    assert notes == []
    await asyncio.sleep(0)
    assert notes == ["a reads", "b reads", "a starts", "b starts", "a sends", "b sends"]


async def test_who_joins_during_a_turn_has_the_next() -> None:
    notes: list[str] = []
    turn = Turn()

    class Again(Noting):
        def send_answers(self) -> None:
            super().send_answers()
            turn.join(Noting("later", notes))

    turn.join(Again("first", notes))
    await asyncio.sleep(0)
    assert notes == ["first reads", "first starts", "first sends"]
    await asyncio.sleep(0)
    assert notes[3:] == ["later reads", "later starts", "later sends"]


@pytest.mark.parametrize("step", ["reads", "starts", "sends"])
async def test_a_fault_ends_one_connection_and_nobody_elses_turn(
    step: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine the line in the log takes as long as a turn may.
    monkeypatch.setattr("goqueue.doors.kafka.turn.perf_counter", lambda: 0.0)
    notes: list[str] = []
    turn = Turn()
    turn.join(Noting("bad", notes, fails_in=step))
    turn.join(Noting("good", notes))
    with caplog.at_level(logging.ERROR):
        await asyncio.sleep(0)
    assert "bad aborts" in notes
    assert [note for note in notes if note.startswith("good")] == [
        "good reads",
        "good starts",
        "good sends",
    ]
    assert "out of cheese" in caplog.text


async def test_connections_behind_a_long_read_have_the_next_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    notes: list[str] = []
    now = iter(range(100))
    monkeypatch.setattr("goqueue.doors.kafka.turn.perf_counter", lambda: next(now))
    turn = Turn()
    turn.join(Noting("a", notes))
    turn.join(Noting("b", notes))
    await asyncio.sleep(0)
    assert notes == ["a reads", "a starts", "a sends"]
    await asyncio.sleep(0)
    assert notes[3:] == ["b reads", "b starts", "b sends"]


class Member(Noting):
    def __init__(self, name: str, notes: list[str], party: str) -> None:
        super().__init__(name, notes)
        self.quota = Party(party)


async def test_parties_take_turns_however_many_connections_they_have() -> None:
    notes: list[str] = []
    turn = Turn(parties=("acme@", "bob"))
    for number in range(1_000):
        turn.join(Member(f"acme-{number}", notes, "acme@"))
    turn.join(Member("bob", notes, "bob"))
    await asyncio.sleep(0)
    assert notes[:3] == ["acme-0 reads", "bob reads", "acme-1 reads"]


async def test_connections_of_nobody_in_particular_are_parties_of_their_own() -> None:
    notes: list[str] = []
    turn = Turn(parties=("", "bob"))
    for name, party in (("b1", "bob"), ("b2", "bob"), ("x", ""), ("y", "")):
        turn.join(Member(name, notes, party))
    await asyncio.sleep(0)
    assert notes[:4] == ["b1 reads", "x reads", "y reads", "b2 reads"]


async def test_who_comes_while_others_wait_is_not_behind_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("goqueue.doors.kafka.turn.READING_SHARED_MAX_SECONDS", -1.0)
    notes: list[str] = []
    turn = Turn(parties=("acme@", "bob"))
    for number in range(10):
        turn.join(Member(f"acme-{number}", notes, "acme@"))
    await asyncio.sleep(0)
    turn.join(Member("bob", notes, "bob"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    reads = [note for note in notes if note.endswith("reads")]
    assert reads == ["acme-0 reads", "acme-1 reads", "bob reads"]
