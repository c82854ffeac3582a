"""Kinds of coordinators: brokers that look after a group or a transactional id."""

from enum import Enum


class CoordinatorKind(Enum):
    """By Kafka's numbers. A share coordinator's key is `group:topic id:partition` (KIP-932)."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2
