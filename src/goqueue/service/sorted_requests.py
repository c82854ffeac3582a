"""Requests of which a part may be refused."""

from collections.abc import Sequence
from typing import NamedTuple

from goqueue.model.log import FetchedPart
from goqueue.model.rights import ReadableCommit, ReadablePart, ReadableTransactionCommit


class SortedParts(NamedTuple):
    """Parts of a fetch: those to read, and the answers of those that are refused.

    Positions are those of the request, so that answers can be put in its order.
    """

    readable: Sequence[ReadablePart]
    refused: dict[int, FetchedPart]


class SortedCommit(NamedTuple):
    """Offsets to commit, without those of the topics that are refused."""

    readable: ReadableCommit
    refused: frozenset[str]


class SortedTransactionCommit(NamedTuple):
    readable: ReadableTransactionCommit
    refused: frozenset[str]
