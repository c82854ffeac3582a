"""Reading and writing a schema's text as JSON, within bounds."""

import json
from typing import Any, Final

from goqueue.model.schemas.formats import InvalidSchema
from goqueue.schema_formats.strict_json import read_strictly

# Deep enough for any schema a person reads; far from the limits of recursive readers.
MAX_NESTING_LEVELS: Final = 128


def load(text: str) -> Any:
    """Raises `InvalidSchema`; no `RecursionError` on the deepest of texts."""
    try:
        value = read_strictly(text)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise InvalidSchema(f"the schema is not JSON: {error}") from None
    _check_nesting(value)
    return value


def compact(value: Any, *, sort_keys: bool = False) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidSchema(
            "a string in the schema holds half of a surrogate pair; write the whole character"
        ) from None
    return text


def equality_key(value: Any) -> object:
    """Equal for equal JSON values: 1 is 1.0 but not true (draft 2020-12 core, 4.2.2)."""
    if isinstance(value, bool) or value is None:
        return ("literal", value)
    if isinstance(value, list):
        return ("array", tuple(equality_key(item) for item in value))
    if isinstance(value, dict):
        return ("object", frozenset((name, equality_key(item)) for name, item in value.items()))
    return value


def _check_nesting(value: Any) -> None:
    level = [value]
    for _ in range(MAX_NESTING_LEVELS):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
        if not inner:
            return
        level = inner
    if any(isinstance(item, dict | list) for item in level):
        raise _too_deep()


def _too_deep() -> InvalidSchema:
    return InvalidSchema(
        f"the schema is nested deeper than {MAX_NESTING_LEVELS} levels; "
        "move inner parts to definitions and refer to them"
    )
