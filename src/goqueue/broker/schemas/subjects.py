"""Which names subjects may have, and what settings can be made for."""

from typing import Final

from goqueue.model.schemas.contexts import (
    ALL_CONTEXTS,
    GLOBAL_CONTEXT,
    GLOBAL_SCOPE,
    context_fault,
    invalid_context,
    parse_subject,
)
from goqueue.model.schemas.errors import invalid_subject

# Topic names end at 249; strategies add record names to them.
SUBJECT_MAX_CHARACTERS: Final = 1_024
# Words that Confluent's registry keeps for itself.
_RESERVED: Final = ("__GLOBAL", "__EMPTY")


def check_subject(subject: str) -> None:
    """Raises `RegistryRefusal` for a name that cannot be registered under."""
    context, name = parse_subject(subject)
    if not name.strip():
        raise invalid_subject(subject, "it is empty")
    if len(subject) > SUBJECT_MAX_CHARACTERS:
        raise invalid_subject(subject, f"it has more than {SUBJECT_MAX_CHARACTERS} characters")
    if any(ord(character) < 0x20 or ord(character) == 0x7F for character in subject):
        raise invalid_subject(subject, "it has control characters")
    if name in _RESERVED:
        raise invalid_subject(subject, "it is reserved")
    if name.startswith(ALL_CONTEXTS):
        raise invalid_subject(subject, f"{ALL_CONTEXTS} stands for all contexts")
    if context == GLOBAL_CONTEXT:
        raise invalid_subject(subject, f"{GLOBAL_CONTEXT} has settings, and no subjects")
    reason = context_fault(context)
    if reason is not None:
        raise invalid_context(context, reason)


def check_scope(scope: str | None) -> None:
    """Raises `RegistryRefusal` for what no settings can be made for: subjects can have them, and
    contexts, which need not be there yet.
    """
    if scope is None or scope == GLOBAL_SCOPE:
        return
    name = parse_subject(scope).subject
    # A context alone is held against the rules by any subject of it.
    check_subject(scope if name else f"{scope}any")
