"""Columns of a Delta table: as Delta stores them, and how they may grow.

Columns only ever come in addition, and may be null; a column never changes its type.
"""

from typing import TYPE_CHECKING

from goqueue.model.errors import InvalidRequest

if TYPE_CHECKING:
    import pyarrow as pa


class TableMismatch(InvalidRequest):
    """Rows that do not fit a table that is there already."""


def stored_type(kind: "pa.DataType") -> "pa.DataType":
    """Times in UTC, whatever zone the session shows them in; texts and bytes in one width."""
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, stored_type(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(stored_type(kind.key_type), stored_type(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(stored_type(kind.value_type))
    return kind


def stored_schema(schema: "pa.Schema") -> "pa.Schema":
    import pyarrow as pa

    return pa.schema([pa.field(each.name, stored_type(each.type)) for each in schema])


def merge_schemas(known: "pa.Schema", other: "pa.Schema") -> "pa.Schema":
    """`known` with what `other` has beyond it. Raise TableMismatch where the types differ."""
    import pyarrow as pa

    return pa.schema(list(_merge_fields(list(known), list(other), "")))


def _merge_fields(
    known: "list[pa.Field[pa.DataType]]", other: "list[pa.Field[pa.DataType]]", path: str
) -> "list[pa.Field[pa.DataType]]":
    import pyarrow as pa

    found = {each.name: each.type for each in other}
    merged = [
        pa.field(
            each.name, _merge_types(each.type, found.pop(each.name, each.type), path + each.name)
        )
        for each in known
    ]
    return merged + [pa.field(name, kind) for name, kind in found.items()]


def _merge_types(known: "pa.DataType", other: "pa.DataType", path: str) -> "pa.DataType":
    import pyarrow as pa

    if known == other:
        return known
    if pa.types.is_struct(known) and pa.types.is_struct(other):
        return pa.struct(_merge_fields(list(known), list(other), f"{path}."))
    if pa.types.is_list(known) and pa.types.is_list(other):
        return pa.list_(_merge_types(known.value_type, other.value_type, f"{path}[]"))
    if pa.types.is_map(known) and pa.types.is_map(other) and known.key_type == other.key_type:
        return pa.map_(
            known.key_type, _merge_types(known.item_type, other.item_type, f"{path}{{}}")
        )
    raise TableMismatch(
        f"column {path!r} is {known} in the table and {other} in the rows; a column keeps its "
        "type: cast the rows, or write them under another name or into another table"
    )
