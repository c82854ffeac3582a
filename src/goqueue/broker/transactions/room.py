"""Room for further transactional ids at their coordinator, and for partitions of transactions."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from goqueue.broker.runtime.shard import StateShard
from goqueue.broker.runtime.topic import ShardHost
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.errors import PolicyViolation
from goqueue.model.fairness.amounts import room_for
from goqueue.model.fairness.named_shares import NamedShares
from goqueue.model.fairness.shares import Shares
from goqueue.model.transactions.messages import AddPartitions
from goqueue.state.transactions.machine import TransactionMachine

# A transaction of no more partitions is let in though others have taken all there are.
ALWAYS_TAKEN_PARTITIONS: Final = 10


class TransactionRoom:
    """`shards`: those that are loaded here."""

    def __init__(
        self,
        host: ShardHost,
        config: BrokerConfig,
        shards: Callable[[], Sequence[StateShard[TransactionMachine]]],
    ) -> None:
        self._host = host
        self._shards = shards
        self._max_ids = config.max_transactional_ids
        self._id_max_bytes = config.transactional_id_max_bytes
        self._max_partitions = config.max_transaction_partitions
        self._shares = NamedShares(
            lambda: host.image.security.tenants, is_secured=config.security_enabled
        )

    def check_new(self, transactional_id: str, *, administers_cluster: bool) -> None:
        """Before it is made. `administers_cluster`: who asks does."""
        size_bytes = len(transactional_id.encode())
        if size_bytes > self._id_max_bytes:
            raise PolicyViolation(
                f"transactional id of {size_bytes} bytes; transactional.id.max.bytes is "
                f"{self._id_max_bytes}"
            )
        known = sum(len(shard.machine.transactions) for shard in self._shards())
        refusal = self._shares.refusal(
            transactional_id,
            self._max_ids,
            known,
            self._counted_ids,
            self._host.clock_ms(),
            administers_cluster=administers_cluster,
        )
        if refusal is not None:
            raise PolicyViolation(
                f"there are {known} transactional ids; max.transactional.ids is {self._max_ids}"
                f"{refusal}"
            )

    def _counted_ids(self) -> Iterator[tuple[str, int]]:
        for shard in self._shards():
            for transactional_id in shard.machine.transactions:
                yield transactional_id, 1

    def check_partitions(self, machine: TransactionMachine, request: AddPartitions) -> None:
        """Before they are added to a transaction of this machine."""
        known = machine.transactions.get(request.transactional_id)
        partitions = request.partitions if known is None else request.partitions | known.partitions
        if len(partitions) <= ALWAYS_TAKEN_PARTITIONS:
            return
        held = [shard.machine.partitions_held for shard in self._shards()]
        added = len(partitions) - (0 if known is None else len(known.partitions))
        tenants = self._host.image.security.tenants
        if added <= room_for(request.transactional_id, self._max_partitions, held, tenants):
            return
        taken = sum(each.total for each in held) + added
        raise PolicyViolation(
            f"open transactions would have {taken} partitions; max.transaction.partitions is "
            f"{self._max_partitions}{Shares(self._max_partitions).told(taken)}"
        )
