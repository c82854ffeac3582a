"""Looking at transactions."""

from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.list_transactions.v1.request import ListTransactionsRequest
from kio.schema.list_transactions.v1.response import ListTransactionsResponse
from kio.schema.types import TransactionalId
from kio.static.primitive import i64

from goqueue.client.admin import KafkaAdmin
from goqueue.client.errors import RequestRefused
from goqueue.client.group_facts import TransactionFacts
from goqueue.client.transaction_answer import DescribeTransactionsResponse


class TransactionAdmin:
    """Works through the connections of a `KafkaAdmin`."""

    def __init__(self, admin: KafkaAdmin) -> None:
        self._admin = admin

    async def list_transactions(
        self, states: tuple[str, ...] = (), *, running_longer_than_ms: int = -1
    ) -> list[TransactionFacts]:
        request = ListTransactionsRequest(
            state_filters=states, duration_filter=i64(running_longer_than_ms)
        )
        found: list[TransactionFacts] = []
        for broker in await self._admin.brokers():
            response = await broker.call(request, ListTransactionsResponse)
            _check(response.error_code, "transactions")
            if response.unknown_state_filters:
                unknown = ", ".join(response.unknown_state_filters)
                raise RequestRefused(f"there is no transaction state {unknown}", -1)
            found += [
                TransactionFacts(
                    transactional_id=str(each.transactional_id),
                    producer_id=int(each.producer_id),
                    state=each.transaction_state,
                )
                for each in response.transaction_states
            ]
        return sorted(found, key=lambda each: each.transactional_id)

    async def describe(self, transactional_id: str) -> TransactionFacts:
        coordinator = await self._admin.coordinator(transactional_id, transactional=True)
        response = await coordinator.call(
            DescribeTransactionsRequest(transactional_ids=(TransactionalId(transactional_id),)),
            DescribeTransactionsResponse,
        )
        found = response.transaction_states[0]
        _check(found.error_code, transactional_id)
        started = found.transaction_start_time
        return TransactionFacts(
            transactional_id=transactional_id,
            producer_id=int(found.producer_id),
            state=found.transaction_state,
            producer_epoch=int(found.producer_epoch),
            timeout_ms=round(found.transaction_timeout.total_seconds() * 1000),
            started_ms=None if started is None else round(started.timestamp() * 1000),
            partitions=tuple(
                (str(topic.topic), int(partition))
                for topic in found.topics
                for partition in topic.partitions
            ),
        )


def _check(code: ErrorCode, name: str) -> None:
    if code is ErrorCode.none:
        return
    if code is ErrorCode.transactional_id_not_found:
        raise RequestRefused(
            f"there is no transactional id {name!r}; see `goqueue transactions list`", int(code)
        )
    raise RequestRefused(f"{name}: {code.name.replace('_', ' ')}", int(code))
