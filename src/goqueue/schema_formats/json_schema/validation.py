"""Checking payloads against a schema."""

from time import process_time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from goqueue.model.schemas.formats import (
    InvalidContent,
    InvalidSchema,
    NotExplained,
    SchemaSource,
    Validator,
)
from goqueue.schema_formats.json_schema.dialects import META_SCHEMAS, pointer_segment
from goqueue.schema_formats.json_schema.documents import DEFAULT_BASE, Documents
from goqueue.schema_formats.json_schema.work import steps_per_byte

if TYPE_CHECKING:
    import jsonschema_rs

# A pattern that needs more steps than this on one string is treated as not matching it. Patterns
# without look-around never backtrack.
MAX_BACKTRACKING_STEPS: Final = 100_000
# Patterns such as (a{1000}){1000} become huge programs.
MAX_PATTERN_BYTES: Final = 1 << 20
# What a pattern may remember of the states that it has been in.
MAX_PATTERN_CACHE_BYTES: Final = 256 * 1024
# A schema that takes longer would hold up a process that has other work: the library keeps the
# interpreter's lock.
MAX_COMPILING_SECONDS: Final = 0.02
# Errors of 16 levels cost about a millisecond; of 200, a hundred.
MAX_EXPLAINED_LEVELS: Final = 16
# An error costs microseconds where a check costs nanoseconds: these may take 30 ms.
MAX_EXPLAINED_STEPS: Final = 20_000
# Reasons quote the payload; the rest of a long one helps nobody.
MAX_REASON_CHARACTERS: Final = 300

_DECODE: Final = msgspec.json.Decoder().decode


def make_validator(source: SchemaSource) -> Validator:
    """The payload is UTF-8 JSON. Raises `InvalidSchema` at once, `InvalidContent` on payloads.

    What a hostile schema or payload costs has no bound here but that of the process.
    """
    compiled = compile_validator(Documents(source))

    def validate(payload: bytes) -> None:
        value = _decode(payload)
        if not _fits(compiled, value):
            _explain(compiled, value)

    return validate


def make_bounded_validator(source: SchemaSource, steps: int) -> Validator:
    """As `make_validator`, of a schema with this bound of work; patterns are linear or refused.

    Raises `NotExplained` where the reason would cost more than the check. The library builds the
    errors of all branches of all levels, each with its path.
    """
    compiled = compile_validator(Documents(source), is_linear=True)

    def validate(payload: bytes) -> None:
        value = _decode(payload)
        if not _fits(compiled, value):
            levels = payload.count(b"[") + payload.count(b"{")
            if levels > MAX_EXPLAINED_LEVELS or steps * len(payload) > MAX_EXPLAINED_STEPS:
                raise NotExplained
            _explain(compiled, value)

    return validate


def bound_of_work(source: SchemaSource) -> int | None:
    """Steps for each byte of a payload; None where no bound is known, or for a slow schema.

    A schema with a bound can be used by `make_bounded_validator` in a process that has other work.
    """
    documents = Documents(source)
    steps = steps_per_byte(documents)
    if steps is None:
        return None
    started = process_time()
    try:
        compile_validator(documents, is_linear=True)
    except InvalidSchema:
        return None
    return steps if process_time() - started <= MAX_COMPILING_SECONDS else None


def _decode(payload: bytes) -> Any:
    try:
        return _DECODE(payload)
    except RecursionError:
        raise InvalidContent("the payload is nested too deeply") from None
    except (ValueError, msgspec.MsgspecError) as error:
        raise InvalidContent(f"the payload is not JSON in UTF-8: {error}") from None


def _fits(compiled: "jsonschema_rs.Validator", value: Any) -> bool:
    try:
        return compiled.is_valid(value)
    except ValueError as error:
        raise InvalidContent(f"the payload cannot be checked: {error}") from None


def _explain(compiled: "jsonschema_rs.Validator", value: Any) -> None:
    import jsonschema_rs

    try:
        compiled.validate(value)
    except jsonschema_rs.ValidationError as error:
        raise InvalidContent(_reason(error)) from None
    except ValueError as error:
        raise InvalidContent(f"the payload cannot be checked: {error}") from None


def compile_validator(
    documents: Documents, *, is_linear: bool = False
) -> "jsonschema_rs.Validator":
    """Raises `InvalidSchema` for what only shows here, as patterns that are none."""
    import jsonschema_rs

    schema = documents.root.schema
    if isinstance(schema, bool):
        schema = {"$schema": META_SCHEMAS[documents.root.draft], **({} if schema else {"not": {}})}
    try:
        return jsonschema_rs.validator_for(
            schema,
            registry=jsonschema_rs.Registry(documents.by_address.items()),
            base_uri=DEFAULT_BASE,
            pattern_options=_linear_options() if is_linear else pattern_options(),
            offline=True,
        )
    except jsonschema_rs.ValidationError as error:
        path = "".join(f"/{pointer_segment(str(step))}" for step in error.instance_path)
        raise InvalidSchema(f"#{path}: {error.message[:MAX_REASON_CHARACTERS]}") from None
    except (jsonschema_rs.ReferencingError, ValueError) as error:
        raise InvalidSchema(f"the schema is of no use: {error}") from None


def pattern_options() -> "jsonschema_rs.FancyRegexOptions":
    import jsonschema_rs

    return jsonschema_rs.FancyRegexOptions(
        backtrack_limit=MAX_BACKTRACKING_STEPS, size_limit=MAX_PATTERN_BYTES
    )


def _linear_options() -> "jsonschema_rs.RegexOptions":
    """No look-around and no backreferences, and so no backtracking."""
    import jsonschema_rs

    return jsonschema_rs.RegexOptions(
        size_limit=MAX_PATTERN_BYTES, dfa_size_limit=MAX_PATTERN_CACHE_BYTES
    )


def _reason(error: "jsonschema_rs.ValidationError") -> str:
    path = "".join(f"/{pointer_segment(str(step))}" for step in error.instance_path)
    return f"{path or '/'}: {error.message[:MAX_REASON_CHARACTERS]}"
