"""Asks the others when this broker is cut off from the metadata store.

While nobody reaches the store, everybody goes on: nobody can be elected. A broker that alone is cut
off must not: its registration runs out, others lead what it led, and its clients would wait at it
for messages that come elsewhere. It cannot tell the two apart by itself, so it asks the others
(`state/membership/seclusion.py`). If they go on without it, it steps down, until it reaches the
store again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from goqueue.broker.background import ended
from goqueue.broker.membership.membership import Membership
from goqueue.metadata.store import MetadataStore
from goqueue.model.errors import GoQueueError, MetadataUnavailable, ShuttingDown
from goqueue.model.names import NodeId
from goqueue.state import metadata_keys as keys
from goqueue.state.membership.seclusion import Knowledge, goes_on_without
from goqueue.state.metadata_image import MetadataImage

logger = logging.getLogger(__name__)

# Between questions, which cost next to nothing: clients wait at a leader that is none.
_LOOK_S: Final = 1.0
# A store that is well answers within some ms.
_STORE_MAX_S: Final = 1.0


class Seclusion:
    def __init__(
        self,
        store: MetadataStore,
        membership: Membership,
        *,
        node_id: NodeId,
        image: Callable[[], MetadataImage],
        ask: Callable[[NodeId], Awaitable[Knowledge]],
        step_down: Callable[[str], Awaitable[None]],
    ) -> None:
        """`ask`: what another broker knows. `step_down` is called with the reason."""
        self._store = store
        self._membership = membership
        self._node_id = node_id
        self._image = image
        self._ask = ask
        self._step_down = step_down
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="whether others go on without us")

    async def close(self) -> None:
        await ended(self._task)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                if self._membership.has_run_out and not await self._does_store_answer():
                    await self.look()
            except ShuttingDown:
                return
            except Exception:
                logger.exception("the others cannot be asked; tried again")

    async def _does_store_answer(self) -> bool:
        """Then this broker is about to hear everything from it."""
        try:
            async with asyncio.timeout(_STORE_MAX_S):
                await self._store.get(keys.broker_key(self._node_id))
        except (TimeoutError, MetadataUnavailable):
            return False
        return True

    async def look(self) -> None:
        """Ask all others, and step down if one of them knows that they go on without this one."""
        membership, image = self._membership, self._image()
        me = membership.me
        if me is None or membership.is_leaving:
            return
        own = Knowledge(
            membership.seen_revision,
            {
                node: None if broker.registration is None else broker.registration.directory
                for node, broker in image.brokers.items()
            },
        )
        others = [node for node in image.brokers if node != self._node_id]
        answers = await asyncio.gather(*map(self._heard, others))
        heard = {node: answer for node, answer in zip(others, answers, strict=True) if answer}
        who = goes_on_without(self._node_id, membership.directory, own, heard)
        # Or it has registered anew while they were asked.
        if who is not None and membership.me == me:
            await self._step_down(
                f"this broker cannot reach the metadata store, and the others go on without it: "
                f"broker {who} knows revision {heard[who].revision} of the metadata, this one "
                f"{own.revision}; it comes back when it reaches the store"
            )

    async def _heard(self, node_id: NodeId) -> Knowledge | None:
        try:
            return await self._ask(node_id)
        except GoQueueError as error:
            logger.debug("broker %d was not heard: %s", node_id, error)
            return None
