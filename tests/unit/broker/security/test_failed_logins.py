"""Log-ins that failed wait for their answer; not without bound."""

import asyncio

import pytest

from goqueue.broker.security import failed_logins
from goqueue.broker.security.failed_logins import FailedLogins

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("looked_s", "left_s"), [(0.0, 60.0), (10.0, 50.0), (70.0, 50.0)])
async def test_an_answer_does_not_tell_how_long_a_password_was_looked_at(
    monkeypatch: pytest.MonkeyPatch, looked_s: float, left_s: float
) -> None:
    """Of a user with more iterations it takes four times as long."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    await FailedLogins(60_000).delay(asyncio.get_running_loop().time() - looked_s)
    assert slept == [pytest.approx(left_s, abs=1)]


async def test_so_many_wait_and_others_are_answered_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(failed_logins, "DELAYED_MAX", 3)
    failed = FailedLogins(60_000)
    waiting = [asyncio.create_task(failed.delay()) for _ in range(3)]
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await failed.delay()
    assert not any(each.done() for each in waiting)
    # Who hangs up makes room.
    waiting[0].cancel()
    await asyncio.wait(waiting[:1])
    waiting.append(asyncio.create_task(failed.delay()))
    await asyncio.sleep(0)
    assert not waiting[-1].done()
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
