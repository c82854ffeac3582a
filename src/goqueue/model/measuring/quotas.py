"""Figures of quotas."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from goqueue.model.security.quotas import QuotaKind, QuotaUsage


@dataclass(frozen=True, slots=True)
class QuotaFigures:
    """`usage` is of those who use most of their quotas."""

    throttled_seconds: Mapping[QuotaKind, float]
    usage: Sequence[QuotaUsage]
