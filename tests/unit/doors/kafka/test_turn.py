"""Turns: each step for all connections, and a fault in one of them is its own."""

import asyncio
import logging

import pytest

from goqueue.doors.kafka.turn import Turn

pytestmark = pytest.mark.anyio


class Noting:
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
    step: str, caplog: pytest.LogCaptureFixture
) -> None:
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
