"""Checking payloads against a schema."""

from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.model.schemas.formats import InvalidContent, InvalidSchema, SchemaSource, Validator
from goqueue.schema_formats.json_schema.dialects import META_SCHEMAS, pointer_segment
from goqueue.schema_formats.json_schema.documents import DEFAULT_BASE, Documents

if TYPE_CHECKING:
    import jsonschema_rs

# A pattern that needs more steps than this on one string is treated as not matching it, so that no
# payload can hold the broker up. Patterns without look-around never backtrack.
MAX_BACKTRACKING_STEPS: Final = 100_000
# Patterns such as (a{1000}){1000} become huge programs.
MAX_PATTERN_BYTES: Final = 1 << 20
# Reasons quote the payload; the rest of a long one helps nobody.
MAX_REASON_CHARACTERS: Final = 300


def make_validator(source: SchemaSource) -> Validator:
    """The payload is UTF-8 JSON. Raises `InvalidSchema` at once, `InvalidContent` on payloads."""
    import jsonschema_rs

    compiled = compile_validator(Documents(source))
    decode = msgspec.json.Decoder().decode

    def validate(payload: bytes) -> None:
        try:
            value = decode(payload)
        except RecursionError:
            raise InvalidContent("the payload is nested too deeply") from None
        except (ValueError, msgspec.MsgspecError) as error:
            raise InvalidContent(f"the payload is not JSON in UTF-8: {error}") from None
        try:
            compiled.validate(value)
        except jsonschema_rs.ValidationError as error:
            raise InvalidContent(_reason(error)) from None
        except ValueError as error:
            raise InvalidContent(f"the payload cannot be checked: {error}") from None

    return validate


def compile_validator(documents: Documents) -> "jsonschema_rs.Validator":
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
            pattern_options=pattern_options(),
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


def _reason(error: "jsonschema_rs.ValidationError") -> str:
    path = "".join(f"/{pointer_segment(str(step))}" for step in error.instance_path)
    return f"{path or '/'}: {error.message[:MAX_REASON_CHARACTERS]}"
