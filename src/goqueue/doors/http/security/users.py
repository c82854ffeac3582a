"""/users: who can log in."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from litestar import Request, Response, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody, PathParameter
from msgspec import UNSET, Meta, UnsetType

from goqueue.doors.http.contents import refused_by_content
from goqueue.doors.http.errors import Refusal
from goqueue.doors.http.long_lists import list_answer
from goqueue.doors.http.openapi import errors
from goqueue.doors.http.security.credentials import Password, UserName
from goqueue.doors.web.callers import let_finish
from goqueue.model.caller import Caller
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.tenants import NAME_MAX_LENGTH as TENANT_MAX_LENGTH
from goqueue.model.security.users import NAME_MAX_LENGTH
from goqueue.model.security.users import User as StoredUser
from goqueue.pace import in_slices
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need

TAGS: Final = ["Security"]
_LOOK: Final = Need(Resource.CLUSTER, Verb.DESCRIBE)
_CHANGE: Final = Need(Resource.CLUSTER, Verb.ALTER)

NameInPath = Annotated[
    str, PathParameter(min_length=1, max_length=NAME_MAX_LENGTH, description="The user's name.")
]


_FEDERATED: Final = Meta(
    description="It is meant by its name also where an identity provider or a certificate tells "
    "it. Not for users of tenants to set."
)


class CreateUser(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: UserName
    password: Annotated[
        Password | UnsetType,
        Meta(description="Without one, the user logs in by keys, certificates or tokens alone."),
    ] = UNSET
    admin: Annotated[bool, Meta(description="May do everything in its tenant.")] = False
    tenant: Annotated[str, Meta(max_length=TENANT_MAX_LENGTH)] = ""
    federated: Annotated[bool, _FEDERATED] = False


class ChangeUser(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    password: Password | UnsetType = UNSET
    admin: bool | UnsetType = UNSET
    federated: Annotated[bool | UnsetType, _FEDERATED] = UNSET


class User(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    tenant: str
    admin: bool
    federated: bool
    mechanisms: Annotated[
        list[str], Meta(description="By which its password logs in; none without a password.")
    ]
    created_ms: int


class Users(msgspec.Struct, frozen=True):
    users: list[User]


class ChangedUser(msgspec.Struct, frozen=True):
    name: str


@get("/users", tags=TAGS, responses=errors(400, 403), opt={"needs": (_LOOK,)})
async def list_users(
    service: NamedDependency[BrokerService], caller: NamedDependency[Caller]
) -> Response[Users]:
    """All users, by name."""
    users = await service.users.users(caller)
    return await list_answer(Users, in_slices(_shown(each) for each in users))


@post(
    "/users",
    tags=TAGS,
    responses=errors(400, 403, 404, 409, 413, 415, 422),
    opt={"needs": (_CHANGE,)},
)
async def create_user(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    data: JSONBody[CreateUser],
) -> Response[User]:
    """Make a user."""
    password = None if data.password is UNSET else data.password
    with refused_by_content():
        made = await service.users.create(
            caller,
            data.name,
            password,
            is_admin=data.admin,
            tenant=data.tenant,
            is_federated=data.federated,
        )
    return Response(_shown(made))


@get("/users/{name:str}", tags=TAGS, responses=errors(400, 403, 404), opt={"needs": (_LOOK,)})
async def describe_user(
    service: NamedDependency[BrokerService], caller: NamedDependency[Caller], name: NameInPath
) -> User:
    """One user."""
    return _shown(service.users.user(caller, name))


@patch(
    "/users/{name:str}",
    tags=TAGS,
    responses=errors(400, 403, 404, 409, 413, 415, 422),
    opt={"needs": (_CHANGE,)},
)
async def change_user(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    request: Request[Any, Any, Any],
    name: NameInPath,
    data: JSONBody[ChangeUser],
) -> ChangedUser:
    """Give a user another password, make it an administrator or none, or say whether its name from
    outside means it. Everyone may change its own password."""
    if data.password is UNSET and data.admin is UNSET and data.federated is UNSET:
        raise Refusal(422, "invalid_request", "password, admin, federated: give at least one")
    if name == caller.principal.name:
        # A session ends with the password, and a name from outside may be its own no more.
        let_finish(request.scope)
    # What needs more is asked for first: whoever may not do all of it changes nothing.
    if data.federated is not UNSET:
        await service.users.set_federated(caller, name, data.federated)
    if data.admin is not UNSET:
        await service.users.set_admin(caller, name, data.admin)
    if data.password is not UNSET:
        with refused_by_content():
            await service.users.set_password(caller, name, data.password)
    return ChangedUser(name)


@delete(
    "/users/{name:str}",
    tags=TAGS,
    responses=errors(400, 403, 404, 409),
    opt={"needs": (_CHANGE,)},
)
async def delete_user(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    request: Request[Any, Any, Any],
    name: NameInPath,
) -> None:
    """Remove a user with its keys. Its other requests under way are refused."""
    if name == caller.principal.name:
        let_finish(request.scope)
    await service.users.delete(caller, name)


def _shown(user: StoredUser) -> User:
    return User(
        name=user.name,
        tenant=user.tenant,
        admin=user.is_admin,
        federated=user.is_federated,
        mechanisms=sorted(user.scram),
        created_ms=user.created_ms,
    )


ROUTES: Final[Sequence[HTTPRouteHandler]] = (
    list_users,
    create_user,
    describe_user,
    change_user,
    delete_user,
)
