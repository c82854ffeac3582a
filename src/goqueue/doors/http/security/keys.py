"""/keys: what programs log in by, at HTTP and at SQS."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from litestar import Request, Response, delete, get, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody, PathParameter, QueryParameter
from msgspec import Meta

from goqueue.doors.http.long_lists import list_answer
from goqueue.doors.http.openapi import errors
from goqueue.doors.http.security.users import TAGS, NameInPath
from goqueue.doors.http.whole_numbers import whole
from goqueue.doors.web.callers import let_finish
from goqueue.model.caller import Caller
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.keys import LABEL_MAX_LENGTH, TOKEN_PREFIX, AccessKey, KeyKind
from goqueue.model.security.users import NAME_MAX_LENGTH
from goqueue.pace import in_slices
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need, Refused

_ID_MAX_LENGTH: Final = 64
# A century: the moment of its end must be one that can be written down.
_LifeMs = Annotated[float, Meta(ge=1, le=100 * 366 * 86_400_000, multiple_of=1)]


class CreateKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    kind: Annotated[
        KeyKind, Meta(description="`api` for HTTP and the schema registry, `sqs` for AWS SDKs.")
    ]
    label: Annotated[str, Meta(max_length=LABEL_MAX_LENGTH)] = ""
    expires_in: Annotated[
        _LifeMs | None, Meta(description="Milliseconds; without them it does not end by itself.")
    ] = None


class Key(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    kind: KeyKind
    user: str
    label: str
    created_ms: int
    expires_ms: int | None


class Keys(msgspec.Struct, frozen=True):
    keys: list[Key]


class NewKey(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    id: str
    kind: KeyKind
    user: str
    label: str
    created_ms: int
    expires_ms: int | None
    secret: Annotated[str, Meta(description="It is not shown again.")]
    token: Annotated[
        str | None, Meta(description="Of an API key: for `Authorization: Bearer …`.")
    ] = None


@get(
    "/keys",
    tags=TAGS,
    responses=errors(400),
    opt={"needs": (Need(Resource.CLUSTER, Verb.DESCRIBE, refused=Refused.LEFT_OUT),)},
)
async def list_keys(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    user: Annotated[
        str | None,
        QueryParameter(min_length=1, max_length=NAME_MAX_LENGTH, description="Of this user only."),
    ] = None,
) -> Response[Keys]:
    """All keys, without their secrets. Those of others are left out for who may not see them."""
    found = await service.keys.keys(caller)
    shown = (_shown(each) for each in found if user in (None, each.user))
    return await list_answer(Keys, in_slices(shown))


@post(
    "/users/{name:str}/keys",
    tags=TAGS,
    responses=errors(400, 403, 404, 409, 413, 415),
    opt={"needs": (Need(Resource.CLUSTER, Verb.ALTER),)},
)
async def create_key(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    name: NameInPath,
    data: JSONBody[CreateKey],
) -> Response[NewKey]:
    """Make a key of a user. Everyone may make keys of its own."""
    made, secret = await service.keys.create(
        caller, name, data.kind, label=data.label, expires_in_ms=whole(data.expires_in)
    )
    key = NewKey(
        id=made.id,
        kind=made.kind,
        user=made.user,
        label=made.label,
        created_ms=made.created_ms,
        expires_ms=made.expires_ms,
        secret=secret,
        token=f"{TOKEN_PREFIX}{made.id}_{secret}" if made.kind is KeyKind.API else None,
    )
    # No cache in between may keep it.
    return Response(key, headers={"cache-control": "no-store"})


@delete(
    "/keys/{key_id:str}",
    tags=TAGS,
    responses=errors(400, 403, 404, 409),
    opt={"needs": (Need(Resource.CLUSTER, Verb.ALTER),)},
)
async def delete_key(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    request: Request[Any, Any, Any],
    key_id: Annotated[str, PathParameter(min_length=1, max_length=_ID_MAX_LENGTH)],
) -> None:
    """Remove a key; nobody logs in by it any more. Everyone may remove its own."""
    # It may be the one that this request came with.
    let_finish(request.scope)
    await service.keys.delete(caller, key_id)


def _shown(key: AccessKey) -> Key:
    return Key(
        id=key.id,
        kind=key.kind,
        user=key.user,
        label=key.label,
        created_ms=key.created_ms,
        expires_ms=key.expires_ms,
    )


ROUTES: Final[Sequence[HTTPRouteHandler]] = (list_keys, create_key, delete_key)
