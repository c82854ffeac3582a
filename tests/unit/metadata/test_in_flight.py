"""Transactions that wait for the store together."""

import asyncio

import pytest

from goqueue.metadata.in_flight import IN_FLIGHT_MAX, in_flight
from goqueue.model.errors import MetadataUnavailable


def test_some_at_a_time_begun_in_order() -> None:
    begun: list[int] = []
    ended: list[int] = []
    most = 0

    async def carry_out(number: int) -> None:
        nonlocal most
        begun.append(number)
        most = max(most, len(begun) - len(ended))
        await asyncio.sleep(0)
        ended.append(number)

    asyncio.run(in_flight(range(50), carry_out))
    assert begun == list(range(50))
    assert sorted(ended) == begun
    assert most == IN_FLIGHT_MAX
    asyncio.run(in_flight((), carry_out))


def test_an_error_leaves_none_under_way() -> None:
    begun: list[int] = []
    ended: list[int] = []

    async def carry_out(number: int) -> None:
        if number == 3:
            raise MetadataUnavailable("gone")
        begun.append(number)
        await asyncio.sleep(0)
        ended.append(number)

    with pytest.raises(MetadataUnavailable):
        asyncio.run(in_flight(range(20), carry_out))
    assert sorted(ended) == sorted(begun) == [number for number in range(20) if number != 3]
