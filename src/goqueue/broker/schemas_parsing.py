"""Parsed schemas, remembered: clients send the same schema again and again."""

from collections import OrderedDict
from typing import Final, NamedTuple

from goqueue.broker.schemas_jobs import Parsed, ParseJob
from goqueue.broker.schemas_worker import SchemaWorker
from goqueue.schema_formats.messages import ParsedSchema, SchemaSource

# The schemas of thousands of topics; one of the largest is a small part of it.
REMEMBERED_MAX_BYTES: Final = 32 * 1024 * 1024


class _Key(NamedTuple):
    source: SchemaSource
    normalize: bool


class SchemaParser:
    """The worker is asked only for what was not asked before."""

    def __init__(
        self, worker: SchemaWorker, *, remembered_max_bytes: int = REMEMBERED_MAX_BYTES
    ) -> None:
        self._worker = worker
        self._max_bytes = remembered_max_bytes
        self._known: OrderedDict[_Key, ParsedSchema] = OrderedDict()
        self._known_bytes = 0

    async def parse(self, source: SchemaSource, *, normalize: bool) -> ParsedSchema:
        """Raises `RegistryRefusal` for what is no schema."""
        key = _Key(source, normalize)
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            return known
        parsed = (await self._worker.run(ParseJob(source, normalize), Parsed)).schema
        self._remember(key, parsed)
        return parsed

    def _remember(self, key: _Key, parsed: ParsedSchema) -> None:
        if key in self._known:
            return
        self._known[key] = parsed
        self._known_bytes += _size_bytes(key, parsed)
        while self._known_bytes > self._max_bytes:
            oldest = self._known.popitem(last=False)
            self._known_bytes -= _size_bytes(*oldest)


def _size_bytes(key: _Key, parsed: ParsedSchema) -> int:
    """About what an entry takes; most texts are ASCII."""
    referenced = sum(len(reference.text) for reference in key.source.references)
    return len(key.source.text) + referenced + len(parsed.canonical)
