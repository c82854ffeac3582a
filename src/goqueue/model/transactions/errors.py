"""The answers of the transaction coordinator, named as Kafka's error codes."""

from enum import Enum


class TransactionError(Enum):
    NONE = "NONE"
    CONCURRENT_TRANSACTIONS = "CONCURRENT_TRANSACTIONS"
    COORDINATOR_LOAD_IN_PROGRESS = "COORDINATOR_LOAD_IN_PROGRESS"
    INVALID_PRODUCER_EPOCH = "INVALID_PRODUCER_EPOCH"
    INVALID_PRODUCER_ID_MAPPING = "INVALID_PRODUCER_ID_MAPPING"
    INVALID_REGULAR_EXPRESSION = "INVALID_REGULAR_EXPRESSION"
    INVALID_REQUEST = "INVALID_REQUEST"
    INVALID_TRANSACTION_TIMEOUT = "INVALID_TRANSACTION_TIMEOUT"
    INVALID_TXN_STATE = "INVALID_TXN_STATE"
    PRODUCER_FENCED = "PRODUCER_FENCED"
    # Of AddPartitionsToTxn, which adds all partitions or none.
    OPERATION_NOT_ATTEMPTED = "OPERATION_NOT_ATTEMPTED"
    TOPIC_AUTHORIZATION_FAILED = "TOPIC_AUTHORIZATION_FAILED"
    UNKNOWN_TOPIC_OR_PARTITION = "UNKNOWN_TOPIC_OR_PARTITION"
    TRANSACTIONAL_ID_NOT_FOUND = "TRANSACTIONAL_ID_NOT_FOUND"
    TRANSACTION_ABORTABLE = "TRANSACTION_ABORTABLE"

    def for_client(
        self, *, knows_producer_fenced: bool, knows_abortable: bool
    ) -> "TransactionError":
        """What to tell a client whose API version is older than the code.

        `PRODUCER_FENCED` came with InitProducerId v4 and AddPartitionsToTxn, AddOffsetsToTxn and
        EndTxn v2 (KIP-588); `TRANSACTION_ABORTABLE` with AddPartitionsToTxn v5 and Produce v11.
        """
        if self is TransactionError.PRODUCER_FENCED and not knows_producer_fenced:
            return TransactionError.INVALID_PRODUCER_EPOCH
        if self is TransactionError.TRANSACTION_ABORTABLE and not knows_abortable:
            return TransactionError.INVALID_TXN_STATE
        return self
