"""Subjects and contexts of tenants: a tenant's are all in contexts that begin with it.

What acme calls `orders-value` is `:.acme@:orders-value` behind the door, and `:.staging:orders` is
`:.acme@staging:orders`. Each context numbers its schemas by itself, so that a tenant finds none of
another by an id.
"""

from typing import Final

from goqueue.model.schemas.contexts import DEFAULT_CONTEXT
from goqueue.model.security.tenants import SEPARATOR

_CONTEXT: Final = ":."


def scope_of_tenant(tenant: str) -> str:
    """What all subjects of a tenant begin with."""
    return f"{_CONTEXT}{tenant}{SEPARATOR}"


def inner_subject(tenant: str, subject: str) -> str:
    """Also of what subjects begin with, and of a scope of settings."""
    if not tenant:
        return subject
    is_in_context = subject.startswith(_CONTEXT)
    return scope_of_tenant(tenant) + (subject[len(_CONTEXT) :] if is_in_context else f":{subject}")


def local_subject(tenant: str, subject: str) -> str:
    scope = scope_of_tenant(tenant)
    if not tenant or not subject.startswith(scope):
        return subject
    rest = subject.removeprefix(scope)
    return rest[1:] if rest.startswith(":") else _CONTEXT + rest


def inner_context(tenant: str, context: str) -> str:
    return f"{DEFAULT_CONTEXT}{tenant}{SEPARATOR}{context[1:]}" if tenant else context


def local_context(tenant: str, context: str) -> str:
    """The default context is there for everybody, also before there is anything in it."""
    own = f"{DEFAULT_CONTEXT}{tenant}{SEPARATOR}"
    return DEFAULT_CONTEXT + context.removeprefix(own) if context.startswith(own) else context


def local_words(tenant: str, text: str) -> str:
    """What the registry says of a tenant's subjects, in the tenant's words."""
    if not tenant:
        return text
    scope = scope_of_tenant(tenant)
    return text.replace(f"{scope}:", "").replace(scope[1:], DEFAULT_CONTEXT)


def tenant_of_subject(subject: str) -> str:
    """The one it would belong to if there is such a tenant."""
    if not subject.startswith(_CONTEXT):
        return ""
    context = subject[len(_CONTEXT) :].partition(":")[0]
    tenant, separator, _ = context.partition(SEPARATOR)
    return tenant if separator else ""
