"""JSON as schemas need it: read strictly and within bounds, written as Java's Avro writes it."""

import json
import math
import re
from typing import cast

from goqueue.model.schemas.formats import InvalidSchema
from goqueue.schema_formats.avro.schema_types import Json
from goqueue.schema_formats.strict_json import read_strictly

# A schema travels in one record of the registry's topic, and those hold one MiB.
MAX_SCHEMA_CHARACTERS = 1024 * 1024
# A record inside a record takes three levels of JSON: 66 records deep. Far more than people
# write, and shallow enough for code that walks a schema by calling itself.
MAX_JSON_LEVELS = 200

# Brackets, and strings as wholes so that brackets in them do not count. An open string reaches to
# the end of the text, which keeps the search linear.
_BRACKET_OR_STRING = re.compile(r'[\[\]{}]|"(?:[^"\\]|\\.)*+"?', re.DOTALL)
# Java writes a double with an exponent from ten million up and from a thousandth down.
_PLAIN_FROM, _PLAIN_BELOW = 1e-3, 1e7


def read_json(text: str) -> Json:
    """Raises `InvalidSchema`, also for a key that an object has twice and for NaN."""
    if len(text) > MAX_SCHEMA_CHARACTERS:
        raise InvalidSchema(
            f"the schema has {len(text)} characters, the limit is {MAX_SCHEMA_CHARACTERS}: "
            "split it and use references"
        )
    _refuse_deep_nesting(text)
    try:
        return cast(Json, read_strictly(text, object_of=_object_of))
    except json.JSONDecodeError as error:
        raise InvalidSchema(
            f"the schema is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except ValueError as error:
        raise InvalidSchema(f"the schema is not JSON: {error}") from None


def _refuse_deep_nesting(text: str) -> None:
    levels = 0
    for found in _BRACKET_OR_STRING.finditer(text):
        if (first := text[found.start()]) in "[{":
            levels += 1
            if levels > MAX_JSON_LEVELS:
                raise InvalidSchema(
                    f"the schema nests deeper than {MAX_JSON_LEVELS} levels of JSON: "
                    "define inner types once and use them by name"
                )
        elif first in "]}":
            levels -= 1


def _object_of(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    built = dict(pairs)
    if len(built) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"an object has the key {twice!r} twice")
    return built


def write_json(value: Json) -> str:
    """Compact, as Jackson does it: keys in the order they have, text as it is."""
    if isinstance(value, dict):
        members = (f"{write_json(key)}:{write_json(member)}" for key, member in value.items())
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write_json, value)) + "]"
    if isinstance(value, float):
        return _write_double(value)
    return json.dumps(value, ensure_ascii=False)


def _write_double(number: float) -> str:
    if not math.isfinite(number):
        return {math.inf: '"Infinity"', -math.inf: '"-Infinity"'}.get(number, '"NaN"')
    if number == 0 or _PLAIN_FROM <= abs(number) < _PLAIN_BELOW:
        return repr(number)
    digits, exponent = _decimal_digits(number)
    sign = "-" if number < 0 else ""
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _decimal_digits(number: float) -> tuple[str, int]:
    """The shortest digits that give this number again, and the power of ten of the first."""
    mantissa, _, power = repr(abs(number)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + fraction
    significant = digits.lstrip("0")
    exponent = int(power or 0) + len(whole) - 1 - (len(digits) - len(significant))
    return significant.rstrip("0"), exponent


def sorted_keys(value: Json) -> Json:
    """The same value with the keys of every object in order."""
    if isinstance(value, dict):
        return {key: sorted_keys(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [sorted_keys(element) for element in value]
    return value
