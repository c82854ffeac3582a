"""What the coordinator of a transactional id does for its producer."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from goqueue.broker.transactions.transactions import END_WAIT_SECONDS, Transactions
from goqueue.model.rights import WritableTopic, WritableTransactionalId
from goqueue.model.transactions.errors import TransactionError
from goqueue.model.transactions.messages import (
    EndTransaction,
    InitProducerId,
    ProducerIdAnswer,
    TransactionDescription,
)
from goqueue.model.transactions.refusals import TransactionRefused, check
from goqueue.model.transactions.states import TransactionState

_ONGOING: Final = TransactionState.ONGOING.label
_PREPARED: Final = frozenset(
    {TransactionState.PREPARE_COMMIT.label, TransactionState.PREPARE_ABORT.label}
)


class WritableProducer(NamedTuple):
    """A producer's identity, whose transactional id its client may write with."""

    transactional_id: WritableTransactionalId
    producer_id: int
    producer_epoch: int


class CoordinatedProducers:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def init(
        self,
        transactional_id: WritableTransactionalId,
        request: InitProducerId,
        *,
        administers_cluster: bool,
    ) -> ProducerIdAnswer:
        """A producer id and epoch; earlier producers of the transactional id are fenced, and what
        they left open is aborted."""
        answer = await self._asked(
            transactional_id,
            lambda: self._transactions.init_producer_id(
                transactional_id, request, administers_cluster=administers_cluster
            ),
        )
        check(answer.error)
        return answer

    async def describe(self, producer: WritableProducer) -> TransactionDescription:
        """The transaction of this producer, or why it is not its own any more."""
        found = await self._transactions.describe(producer.transactional_id)
        check(found.error)
        if found.producer_id != producer.producer_id:
            raise TransactionRefused(TransactionError.INVALID_PRODUCER_ID_MAPPING)
        if found.producer_epoch != producer.producer_epoch:
            raise TransactionRefused(TransactionError.PRODUCER_FENCED)
        return found

    async def begin(self, producer: WritableProducer) -> TransactionDescription:
        """Open a transaction; its time-out runs from here. Repeating it changes nothing."""
        found = await self._settled(producer)
        if found.state in _PREPARED:
            raise TransactionRefused(TransactionError.CONCURRENT_TRANSACTIONS)
        if found.state == _ONGOING:
            if found.partitions:
                raise TransactionRefused(
                    TransactionError.INVALID_TXN_STATE,
                    "a transaction is open already; commit or abort it first",
                )
            return found
        await self._transactions.begin(
            producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
        )
        return await self.open(producer)

    async def add_partition(
        self, producer: WritableProducer, topic: WritableTopic, index: int
    ) -> TransactionDescription:
        """Of a topic that the caller has looked at."""
        await self.open(producer)
        await self._transactions.add_partition(
            producer.transactional_id,
            topic,
            index,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
        )
        return await self.open(producer)

    async def end(self, producer: WritableProducer, *, commit: bool) -> TransactionDescription:
        """Commit or abort; tells the epoch to go on with, once every partition knows.

        Repeating it with the same identity gives the same answer.
        """
        request = EndTransaction(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            commit=commit,
            bumps_epoch=True,
        )
        answer = await self._asked(
            producer.transactional_id,
            lambda: self._transactions.end(producer.transactional_id, request),
        )
        if answer.error is TransactionError.INVALID_TXN_STATE:
            raise TransactionRefused(
                answer.error,
                "no transaction is open that could end so: it ended already, or it timed out and "
                "was aborted; abort, and begin again with the answer's epoch",
            )
        check(answer.error)
        following = WritableProducer(
            producer.transactional_id, answer.producer_id, answer.producer_epoch
        )
        return await self._settled(following)

    # --- parts ----------------------------------------------------------------------------

    async def _asked(
        self, transactional_id: str, ask: Callable[[], Awaitable[ProducerIdAnswer]]
    ) -> ProducerIdAnswer:
        """Ask; as long as the transaction before is being ended, wait for that and ask again."""
        give_up_at = asyncio.get_running_loop().time() + END_WAIT_SECONDS
        while True:
            answer = await ask()
            if answer.error is not TransactionError.CONCURRENT_TRANSACTIONS:
                return answer
            if not await self._transactions.settled(transactional_id, give_up_at=give_up_at):
                return answer

    async def _settled(self, producer: WritableProducer) -> TransactionDescription:
        """The transaction once it is not on its way to an end; after a while as it is."""
        if await self._transactions.settled(producer.transactional_id):
            return await self.describe(producer)
        return await self._transactions.describe(producer.transactional_id)

    async def open(self, producer: WritableProducer) -> TransactionDescription:
        """As `describe`, and refuses if no transaction is open."""
        found = await self.describe(producer)
        if found.state != _ONGOING:
            raise TransactionRefused(TransactionError.INVALID_TXN_STATE)
        return found
