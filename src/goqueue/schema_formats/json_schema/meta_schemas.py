"""The drafts' own schemas, as the validating library carries them."""

from functools import cache
from typing import Any

from goqueue.model.schemas.formats import InvalidSchema
from goqueue.schema_formats.json_schema.dialects import (
    META_SCHEMAS,
    Draft,
    Schema,
    pointer_segment,
)


def check_against_meta_schema(schema: dict[str, Any], path: str) -> None:
    """Raises `InvalidSchema` that names what is wrong and where; `$schema` must be set."""
    import jsonschema_rs

    try:
        jsonschema_rs.meta.validate(schema)
    except jsonschema_rs.ValidationError as error:
        where = path + "".join(f"/{pointer_segment(str(s))}" for s in error.instance_path)
        raise InvalidSchema(f"{where}: {error.message[:300]}") from None


@cache
def meta_schemas(draft: Draft) -> dict[str, Schema]:
    """The draft's meta-schema and the vocabularies that it consists of, by address."""
    import jsonschema_rs

    uri = META_SCHEMAS[draft]
    user: dict[str, Any] = {"$schema": uri, "properties": {"any": {"$ref": uri}}}
    bundled = jsonschema_rs.bundle(user, offline=True)
    found: dict[str, Schema] = bundled.get("$defs") or bundled["definitions"]
    return found
