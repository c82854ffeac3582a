"""Which names subjects may have."""

from typing import Final

from goqueue.model.schemas.errors import RefusalKind, RegistryRefusal

# Topic names end at 249; strategies add record names to them.
SUBJECT_MAX_CHARACTERS: Final = 1_024
# Words that Confluent's registry keeps for itself.
_RESERVED: Final = ("__GLOBAL", "__EMPTY")
# A name with a context in it, as in `:.staging:orders-value`.
_CONTEXT_PREFIX: Final = ":."


def check_subject(subject: str) -> None:
    """Raises `RegistryRefusal` for a name that cannot be registered under."""
    if not subject.strip():
        raise _invalid(subject, "it is empty")
    if len(subject) > SUBJECT_MAX_CHARACTERS:
        raise _invalid(subject[:40] + "…", f"it has more than {SUBJECT_MAX_CHARACTERS} characters")
    if any(ord(character) < 0x20 or ord(character) == 0x7F for character in subject):
        raise _invalid(subject, "it has control characters")
    if subject in _RESERVED:
        raise _invalid(subject, "it is reserved")
    if subject.startswith(_CONTEXT_PREFIX):
        raise _invalid(subject, "this registry has no contexts but the default one")


def _invalid(subject: str, reason: str) -> RegistryRefusal:
    return RegistryRefusal(
        RefusalKind.INVALID_SUBJECT,
        f"The specified subject '{subject}' is not a valid subject: {reason}.",
    )
