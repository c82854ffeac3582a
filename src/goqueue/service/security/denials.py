"""What somebody is told who may not do something."""

from typing import Final

from goqueue.model.caller import Caller
from goqueue.model.errors import (
    AccessDenied,
    ClusterAccessDenied,
    GroupAccessDenied,
    SubjectAccessDenied,
    TopicAccessDenied,
    TransactionalIdAccessDenied,
)
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.errors import TokenAccessDenied

_DENIED: Final[dict[Resource, type[AccessDenied]]] = {
    Resource.TOPIC: TopicAccessDenied,
    Resource.GROUP: GroupAccessDenied,
    Resource.CLUSTER: ClusterAccessDenied,
    Resource.TRANSACTIONAL_ID: TransactionalIdAccessDenied,
    Resource.SUBJECT: SubjectAccessDenied,
    Resource.USER: TokenAccessDenied,
    Resource.DELEGATION_TOKEN: TokenAccessDenied,
}
_WORDS: Final = {
    Resource.TOPIC: "topic",
    Resource.GROUP: "group",
    Resource.CLUSTER: "the cluster",
    Resource.TRANSACTIONAL_ID: "transactional id",
    Resource.SUBJECT: "subject",
    Resource.USER: "user",
    Resource.DELEGATION_TOKEN: "delegation token",
}


def denied(caller: Caller, resource: Resource, name: str, verb: Verb) -> AccessDenied:
    what = _WORDS[resource] if resource is Resource.CLUSTER else f"{_WORDS[resource]} {name!r}"
    return _DENIED[resource](f"{caller.principal} is not allowed to {word(verb)} {what}")


def word(verb: Verb) -> str:
    return verb.name.lower().replace("_", " ")
