"""Decodes a column of keys or values record by record, for formats and schemas of every kind.

https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/#wire-format
"""

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from goqueue.client.http_api import HttpRefused
from goqueue.model.errors import GoQueueError, InvalidRecord
from goqueue.spark.source.writer_schemas import NOT_FOUND, PERMISSIVE, SchemaChanged, WriterSchemas

if TYPE_CHECKING:
    import pyarrow as pa

    from goqueue.spark.source.arrow_rows import Column
    from goqueue.spark.source.batch_sections import Numbers

_PREFIX: Final = struct.Struct(">bi")
_MAGIC: Final = 0
# Arrow's own errors are of these kinds, too.
_ARROW_REFUSALS: Final = (ValueError, TypeError, OverflowError)


class RowDecoder:
    """`what` names the field and the partition in messages."""

    def __init__(
        self,
        what: str,
        read: Callable[[bytes, int], Any],
        arrow_type: "pa.DataType",
        schemas: WriterSchemas,
        *,
        skip_undecodable: bool,
    ) -> None:
        self._what = what
        self._read = read
        self._arrow_type = arrow_type
        self._schemas = schemas
        self._skip_undecodable = skip_undecodable

    def __call__(self, column: "Column", offsets: "Numbers") -> "Column":
        import pyarrow as pa

        contents, numbers = column.to_pylist(), offsets.tolist()
        values = [self._value(*pair) for pair in zip(contents, numbers, strict=True)]
        try:
            return pa.array(values, self._arrow_type)
        except _ARROW_REFUSALS:  # such as a decimal of more digits than the schema says
            triples = zip(values, contents, numbers, strict=True)
            return pa.array([self._fitting(*each) for each in triples], self._arrow_type)

    def _value(self, content: bytes | None, offset: int) -> Any:
        if content is None:
            return None
        try:
            return self._read(*_unwrapped(content))
        except SchemaChanged as error:
            raise SchemaChanged(f"{self._what} at offset {offset}: {error}") from None
        except GoQueueError as error:
            # Bytes that only look like a schema's id; all else is the registry's trouble.
            if not isinstance(error, HttpRefused) or error.status != NOT_FOUND:
                raise
            return self._undecodable(None, offset, error)
        except Exception as error:  # decoders raise what they like on what they cannot read
            return self._undecodable(content, offset, error)

    def _fitting(self, value: Any, content: bytes | None, offset: int) -> Any:
        import pyarrow as pa

        try:
            pa.array([value], self._arrow_type)
        except _ARROW_REFUSALS as error:
            return self._undecodable(content, offset, error)
        return value

    def _undecodable(self, content: bytes | None, offset: int, error: Exception) -> None:
        """Null in its place, where the reader asked for that."""
        if self._skip_undecodable:
            return
        what = f"{self._what} at offset {offset}"
        schema_id = None if content is None else _schema_id(content)
        if schema_id is not None and self._schemas.newer_version(schema_id) is not None:
            if self._schemas.evolution == PERMISSIVE:
                return
            change = self._schemas.change(schema_id)
            raise SchemaChanged(f"{what} does not fit its column ({error}): {change}") from error
        raise InvalidRecord(
            f"{what} is not what its schema says: {error}; mode=permissive makes such ones null"
        ) from error


def _schema_id(content: bytes) -> int | None:
    """None where nothing says that there is one."""
    try:
        return _unwrapped(content)[1]
    except ValueError:
        return None


def _unwrapped(content: bytes) -> tuple[bytes, int]:
    """(payload, schema id)"""
    if len(content) < _PREFIX.size:
        raise ValueError("it is too short for a schema id")
    magic, schema_id = _PREFIX.unpack_from(content)
    if magic != _MAGIC:
        raise ValueError("it does not begin with a schema id")
    return content[_PREFIX.size :], schema_id
