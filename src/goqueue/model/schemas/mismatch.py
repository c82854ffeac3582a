"""Why a schema does not go with one that is registered."""

from typing import Final, NamedTuple

from goqueue.model.schemas.formats import Incompatibility, SchemaSource, SchemaType
from goqueue.model.schemas.messages import CompatibilityLevel, Version

# Of the older schema, this much is shown with the reasons.
_SHOWN_CHARACTERS_MAX: Final = 2_000


class Mismatch(NamedTuple):
    """Why a schema is not compatible with one that is registered."""

    old: Version
    old_source: SchemaSource
    level: CompatibilityLevel
    reasons: list[Incompatibility]

    def messages(self) -> list[str]:
        """In the form of Confluent's registry, which people search the web for and tools read."""
        shown = self.old_source.text[:_SHOWN_CHARACTERS_MAX]
        write = _avro_reason if self.old_source.type is SchemaType.AVRO else _reason
        return [
            *map(write, self.reasons),
            f"{{oldSchemaVersion: {self.old.number}}}",
            f"{{oldSchema: '{shown}'}}",
            f"{{validateFields: 'false', compatibility: '{self.level}'}}",
        ]


def _avro_reason(reason: Incompatibility) -> str:
    kind, path, text = reason
    return (
        f"{{errorType:'{kind}', description:'{text}, at path '{path}'', additionalInfo:'{path}'}}"
    )


def _reason(reason: Incompatibility) -> str:
    kind, path, text = reason
    return f'{{errorType:"{kind}", description:"{text}, at path \'{path}\'"}}'
