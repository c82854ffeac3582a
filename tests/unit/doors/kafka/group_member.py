"""Members of groups, as scripts of requests."""

import asyncio
from collections.abc import Callable
from typing import Any

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka import KafkaDoor
from tests.unit.doors.kafka.wire_client import WireClient

JOIN_VERSIONS_WITH_ID_FIRST = 4


class ClassicMember:
    """One member of a classic group on a connection of its own."""

    def __init__(self, client: WireClient, group_id: str, **join_fields: Any) -> None:
        self.client = client
        self.group_id = group_id
        self.member_id = ""
        self.generation_id = -1
        self.join_fields: dict[str, Any] = {
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"mine"}],
            "session_timeout": 10_000,
            **join_fields,
        }

    @classmethod
    async def connect(cls, door: KafkaDoor, group_id: str, **join_fields: Any) -> "ClassicMember":
        return cls(await WireClient.connect(*door.address), group_id, **join_fields)

    async def join(self, version: int = 9) -> Any:
        """Join, with the id that the broker gives where the version asks for that."""
        answer = await self._join(version)
        if answer.error_code is ErrorCode.member_id_required:
            self.member_id = answer.member_id
            answer = await self._join(version)
        if answer.error_code is ErrorCode.none:
            self.member_id, self.generation_id = answer.member_id, answer.generation_id
        return answer

    async def _join(self, version: int) -> Any:
        fields = {"rebalance_timeout": 10_000} if version >= 1 else {}
        return await self.client.call(
            "join_group",
            version,
            group_id=self.group_id,
            member_id=self.member_id,
            **fields,
            **self.join_fields,
        )

    async def sync(
        self, assignments: dict[str, bytes] | None = None, version: int = 5, **more: Any
    ) -> Any:
        return await self.client.call(
            "sync_group",
            version,
            group_id=self.group_id,
            member_id=self.member_id,
            assignments=[
                {"member_id": member_id, "assignment": given}
                for member_id, given in (assignments or {}).items()
            ],
            **{"generation_id": self.generation_id, **more},
        )

    async def heartbeat(self, version: int = 4, **more: Any) -> ErrorCode:
        fields = {"member_id": self.member_id, "generation_id": self.generation_id, **more}
        answer = await self.client.call("heartbeat", version, group_id=self.group_id, **fields)
        code: ErrorCode = answer.error_code
        return code

    async def settle(self) -> None:
        """Join as the only member and take everything."""
        joined = await self.join()
        assert joined.error_code is ErrorCode.none
        synced = await self.sync({self.member_id: b"all"})
        assert synced.error_code is ErrorCode.none


async def until(condition: Callable[[], Any]) -> Any:
    """Ask until the answer is not no."""
    async with asyncio.timeout(60):
        # Not by truth: the error code 0 is an answer.
        while (answer := await condition()) is None or answer is False:
            await asyncio.sleep(0)
        return answer
