"""Every string of every body and answer is a name, or known not to be one."""

import typing
from typing import Any

import msgspec
import pytest
from litestar.handlers import HTTPRouteHandler

from goqueue.doors.http.app import ROUTES
from goqueue.doors.http.tenant_names import LISTS_OF_NAMES, NAMED_TOPICS, NAMES, PATTERNS, TEXTS
from goqueue.model.rights import Resource

# Fields of structures that name nothing of a tenant's.
NO_NAMES = {
    # What clients say of themselves, and of their messages.
    "client_id",
    "consumer",
    "host",
    "instance_id",
    "member_id",
    "rack_id",
    "key",
    "value",
    "headers",
    "metadata",
    # Numbers and words of the broker's.
    "assignor",
    "by_reason",
    "by_state",
    "cluster_id",
    "code",
    "delayed_id",
    "error",
    "id",
    "leader_url",
    "links",
    "next_after",
    "parent_id",
    "protocol_type",
    "source",
    "span_id",
    "state",
    "status",
    "topic_id",
    "trace_id",
    "type",
    "version",
    # Settings.
    "config",
    # Who somebody is.
    "door",
    "label",
    "mechanisms",
    "password",
    "principal",
    "tenant",
    "user",
}
# `name` of other things than topics.
OTHERS_WITH_NAMES = {"EffectiveSetting", "NamedHeader", "LaneStats", "FrontPage", "LogIn"}


def structures(kind: Any, seen: set[Any]) -> None:
    for each in (kind, *typing.get_args(kind)):
        if isinstance(each, type) and issubclass(each, msgspec.Struct) and each not in seen:
            seen.add(each)
            for hint in typing.get_type_hints(each, include_extras=False).values():
                structures(hint, seen)
        elif each is not kind:
            structures(each, seen)


def has_text(kind: Any) -> bool:
    return kind in (str, Any) or any(has_text(each) for each in typing.get_args(kind))


def is_of_tenants(route: HTTPRouteHandler) -> bool:
    return all(need.resource is not Resource.CLUSTER for need in route.opt["needs"])


# The others are refused to tenants.
OF_TENANTS = [pytest.param(each, id=str(each)) for each in ROUTES if is_of_tenants(each)]


@pytest.mark.parametrize("route", OF_TENANTS)
def test_every_text_is_a_name_or_known_not_to_be_one(route: HTTPRouteHandler) -> None:
    found: set[Any] = set()
    for name, hint in typing.get_type_hints(route.fn).items():
        if name in ("data", "return"):
            structures(hint, found)
    for kind in found:
        for field in msgspec.structs.fields(kind):
            hint = typing.get_type_hints(kind)[field.name]
            if not has_text(hint):
                continue
            known = field.name in NAMES | LISTS_OF_NAMES | TEXTS | PATTERNS | NO_NAMES
            if field.name == "name":
                known = kind in NAMED_TOPICS or kind.__name__ in OTHERS_WITH_NAMES
            assert known, (kind.__name__, field.name)
