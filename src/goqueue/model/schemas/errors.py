"""Why the registry refuses. Confluent's numbers for these are the door's business."""

from enum import Enum, auto
from typing import Final

from goqueue.model.errors import GoQueueError

# Of a name that is refused.
_SHOWN_CHARACTERS_MAX: Final = 80


class RefusalKind(Enum):
    SUBJECT_NOT_FOUND = auto()
    VERSION_NOT_FOUND = auto()
    SCHEMA_NOT_FOUND = auto()
    SUBJECT_SOFT_DELETED = auto()
    SUBJECT_NOT_SOFT_DELETED = auto()
    VERSION_SOFT_DELETED = auto()
    VERSION_NOT_SOFT_DELETED = auto()
    SUBJECT_CONFIG_NOT_SET = auto()
    SUBJECT_MODE_NOT_SET = auto()
    INCOMPATIBLE = auto()
    INVALID_SCHEMA = auto()
    INVALID_VERSION = auto()
    INVALID_COMPATIBILITY = auto()
    INVALID_MODE = auto()
    NOT_PERMITTED = auto()
    REFERENCE_EXISTS = auto()
    INVALID_SUBJECT = auto()
    SCHEMA_TOO_LARGE = auto()
    CONTEXT_NOT_EMPTY = auto()
    UNSUPPORTED = auto()
    WORKER_FAILED = auto()


class RegistryRefusal(GoQueueError):
    code = "registry_refusal"
    kind: RefusalKind

    def __init__(self, kind: RefusalKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def subject_not_found(subject: str) -> RegistryRefusal:
    return RegistryRefusal(RefusalKind.SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> RegistryRefusal:
    return RegistryRefusal(RefusalKind.VERSION_NOT_FOUND, f"Version {version} not found.")


def schema_not_found(schema_id: int | str | None = None) -> RegistryRefusal:
    which = "Schema" if schema_id is None else f"Schema {schema_id}"
    return RegistryRefusal(RefusalKind.SCHEMA_NOT_FOUND, f"{which} not found")


def context_not_found(context: str) -> RegistryRefusal:
    return RegistryRefusal(RefusalKind.SUBJECT_NOT_FOUND, f"Context '{context}' not found.")


def config_not_set(subject: str) -> RegistryRefusal:
    return RegistryRefusal(
        RefusalKind.SUBJECT_CONFIG_NOT_SET,
        f"Subject '{subject}' does not have subject-level compatibility configured",
    )


def mode_not_set(subject: str) -> RegistryRefusal:
    return RegistryRefusal(
        RefusalKind.SUBJECT_MODE_NOT_SET,
        f"Subject '{subject}' does not have subject-level mode configured",
    )


def invalid_schema(details: str) -> RegistryRefusal:
    """The first words are Confluent's: clients look for them."""
    return RegistryRefusal(RefusalKind.INVALID_SCHEMA, f"Invalid schema, details: {details}")


def not_permitted(message: str) -> RegistryRefusal:
    return RegistryRefusal(RefusalKind.NOT_PERMITTED, message)


def invalid_subject(subject: str, reason: str) -> RegistryRefusal:
    shown = (
        subject if len(subject) <= _SHOWN_CHARACTERS_MAX else subject[:_SHOWN_CHARACTERS_MAX] + "…"
    )
    return RegistryRefusal(
        RefusalKind.INVALID_SUBJECT,
        f"The specified subject '{shown}' is not a valid subject: {reason}.",
    )
