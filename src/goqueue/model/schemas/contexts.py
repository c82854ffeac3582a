"""Contexts: registries within the registry, each with its own subjects and its own ids.

A subject is written with its context in front, between colons: `:.staging:orders-value`. One
without is in the default context, whose name is a dot. Everywhere behind the doors a subject is
one string, in the shortest of these forms, so that rights and settings know it by one name.
https://docs.confluent.io/platform/current/schema-registry/schema-contexts-cp.html
"""

from typing import Final, NamedTuple

from goqueue.model.schemas.errors import RegistryRefusal, invalid_subject

DEFAULT_CONTEXT: Final = "."
# No schemas are here; its settings count where neither a subject nor its context has any.
GLOBAL_CONTEXT: Final = ".__GLOBAL"
GLOBAL_SCOPE: Final = f":{GLOBAL_CONTEXT}:"
# How Confluent's clients write "in every context".
ALL_CONTEXTS: Final = ":*:"
# Names of environments and teams; a subject has at most 1,024 characters with its context.
CONTEXT_MAX_CHARACTERS: Final = 255

_CONTEXT_PREFIX: Final = ":."


class QualifiedSubject(NamedTuple):
    context: str
    subject: str


class ContextId(NamedTuple):
    """What a schema is known by: each context numbers its own."""

    context: str
    id: int


def parse_subject(text: str) -> QualifiedSubject:
    if not text.startswith(_CONTEXT_PREFIX):
        return QualifiedSubject(DEFAULT_CONTEXT, text)
    context, _, subject = text[1:].partition(":")
    return QualifiedSubject(context, subject)


def context_of(subject: str) -> str:
    return parse_subject(subject).context


def scope_of(context: str) -> str:
    """What subjects of the context begin with, and the name its settings are kept under."""
    return "" if context == DEFAULT_CONTEXT else f":{context}:"


def qualified(context: str, text: str) -> str:
    """The subject that a request in a context, or a schema in it, means by this text."""
    if not text.startswith(_CONTEXT_PREFIX):
        return scope_of(context) + text
    context, subject = parse_subject(text)
    if context == DEFAULT_CONTEXT and subject.startswith(_CONTEXT_PREFIX):
        # Without its context in front it would be a subject of another one.
        raise invalid_subject(text, "a second context follows the first")
    return scope_of(context) + subject


def parse_context(text: str) -> str:
    """A context by itself: `staging`, `.staging` and `:.staging:` are the same."""
    name = text.removeprefix(":").removesuffix(":")
    if not name.startswith("."):
        name = f".{name}"
    reason = context_fault(name)
    if reason is not None:
        raise invalid_context(text, reason)
    return name


def context_fault(name: str) -> str | None:
    """Why no context can have this name."""
    if ":" in name:
        return "it has a colon in it"
    if len(name) > CONTEXT_MAX_CHARACTERS:
        return f"it has more than {CONTEXT_MAX_CHARACTERS} characters"
    if any(ord(character) < 0x20 or ord(character) == 0x7F for character in name):
        return "it has control characters"
    return None


def invalid_context(text: str, reason: str) -> RegistryRefusal:
    return invalid_subject(text, f"as a context, {reason}")
