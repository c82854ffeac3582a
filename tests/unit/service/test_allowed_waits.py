"""Waits that end when the right to wait ends."""

import asyncio

import pytest

from goqueue.model.errors import AccessDenied
from goqueue.service.security.allowed_waits import AllowedWaits

pytestmark = pytest.mark.anyio


def refuse() -> None:
    raise AccessDenied("not any more")


async def test_a_right_that_went_before_the_wait_began_ends_it_at_once() -> None:
    waits = AllowedWaits()
    since = waits.changes
    waits.rules_changed()
    with pytest.raises(AccessDenied, match="not any more"):
        async with asyncio.timeout(5), waits.while_allowed(refuse, since=since):
            await asyncio.Event().wait()


async def test_without_a_change_nobody_is_asked_again() -> None:
    waits = AllowedWaits()
    async with waits.while_allowed(refuse, since=waits.changes):
        await asyncio.sleep(0)


async def test_a_deadline_within_is_its_own() -> None:
    waits = AllowedWaits()
    with pytest.raises(TimeoutError):
        async with waits.while_allowed(refuse, since=waits.changes), asyncio.timeout(0):
            await asyncio.Event().wait()
