"""JSON as RFC 8259 has it: Python's reader takes NaN as well, and makes 1e999 infinite."""

import json
import math
from collections.abc import Callable
from typing import Any, NoReturn


def read_strictly(
    text: str, *, object_of: Callable[[list[tuple[str, Any]]], Any] | None = None
) -> Any:
    """Raises `ValueError`, and `RecursionError` on what is nested too deeply."""
    return json.loads(
        text, object_pairs_hook=object_of, parse_float=_finite, parse_constant=_refuse_constant
    )


def _finite(literal: str) -> float:
    number = float(literal)
    if math.isinf(number):
        raise ValueError(f"the number {literal[:40]} is out of range; use one below 1.8e308")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")
