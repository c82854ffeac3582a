"""Operations that change what a broker is told to do say so here, and the audit hears of each.

    @audited("topic.delete", Resource.TOPIC, about="name")
    async def delete(self, caller: Caller, name: str) -> TopicView: ...

A test of the source tree holds every method of a service to it that asks for the right to make,
change or delete something. Who is refused is told of by `Access`, and not a second time.
"""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from enum import Enum
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from goqueue.model.audit import Change, Outcome
from goqueue.model.broker_config import BROKER_SETTINGS
from goqueue.model.caller import Caller
from goqueue.model.configs import ConfigChange, ConfigOp
from goqueue.model.errors import AccessDenied, GoQueueError
from goqueue.model.groups.errors import GroupError
from goqueue.model.rights import Resource
from goqueue.model.runtime_config import DYNAMIC_BROKER_SETTINGS
from goqueue.model.security.quotas import QuotaChange
from goqueue.model.security.rules import ANY, Pattern, PatternFilter, Rule, RuleFilter
from goqueue.model.security.users import BROKER_KIND
from goqueue.model.topic_config import TOPIC_SETTINGS
from goqueue.service.security.access import Access

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

# Of what a request names in a list.
_LISTED_MAX: Final = 10
_USUAL_PATTERNS: Final = (Pattern.LITERAL, PatternFilter.LITERAL, PatternFilter.ANY)
_TABLES: Final = (TOPIC_SETTINGS, BROKER_SETTINGS, DYNAMIC_BROKER_SETTINGS)


class _GroupAnswer(Protocol):
    @property
    def error(self) -> GroupError: ...


class _Service(Protocol):
    _access: Access


S = TypeVar("S", bound=_Service)
Method = Callable[Concatenate[S, Caller, P], Awaitable[R]]
Noted = Callable[Concatenate[S, Caller, P], Coroutine[Any, Any, R]]


def audited(
    event: str,
    resource: Resource,
    *,
    about: str = "",
    detail: Sequence[str] = (),
    failure: Callable[[Any], str] = lambda _: "",
    is_gathered: bool = False,
    notes_failures: bool = True,
) -> Callable[[Method[S, P, R]], Noted[S, P, R]]:
    """`about` and `detail` name parameters of the method, or fields of them (`new.name`).

    `failure`: the code of what went wrong, of methods that answer with it; empty: nothing.
    `is_gathered`: of what programs do again and again by themselves, without details. Without
    `notes_failures` only what was done is noted: others ask for it in passing.
    """

    def decorate(method: Method[S, P, R]) -> Noted[S, P, R]:
        signature = inspect.signature(method)
        for path in (about, *detail):
            assert not path or path.partition(".")[0] in signature.parameters, (method, path)

        @functools.wraps(method)
        async def noted(self: S, caller: Caller, /, *args: P.args, **kwargs: P.kwargs) -> R:
            witness = self._access.witness
            # What brokers ask of each other was noted by the first of them, or is their own work.
            if (
                witness is None
                or caller.principal.kind == BROKER_KIND
                or kwargs.get("validate_only", False)
            ):
                return await method(self, caller, *args, **kwargs)

            def tell(outcome: Outcome, error: str = "") -> None:
                given = signature.bind(self, caller, *args, **kwargs).arguments
                change = Change(
                    caller=caller,
                    event=event,
                    outcome=outcome,
                    resource=resource.name.lower(),
                    name=_text(_found(given, about)),
                    detail={
                        path.rpartition(".")[2]: text
                        for path in detail
                        if (text := _text(_found(given, path)))
                    },
                    error=error,
                )
                (witness.changed_often if is_gathered else witness.changed)(change)

            try:
                result = await method(self, caller, *args, **kwargs)
            except AccessDenied:
                raise
            except GoQueueError as error:
                if notes_failures:
                    tell(Outcome.FAILURE, error.code)
                raise
            except asyncio.CancelledError:
                tell(Outcome.UNKNOWN)
                raise
            except Exception as error:
                tell(Outcome.UNKNOWN, type(error).__name__)
                raise
            code = failure(result)
            tell(Outcome.FAILURE if code else Outcome.SUCCESS, code)
            return result

        return noted

    return decorate


def group_error(result: "_GroupAnswer") -> str:
    """Of answers about groups that say what is in the way."""
    return "" if result.error is GroupError.NONE else result.error.name.lower()


def _found(given: Mapping[str, Any], path: str) -> Any:
    if not path:
        return None
    first, *fields = path.split(".")
    value = given.get(first)
    for field in fields:
        value = None if value is None else getattr(value, field)
    return value


def _text(value: Any) -> str:
    """As somebody reads it. Values of settings are told only where they are known to be no secret:
    others may be anything."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, ConfigChange):
        if value.op is ConfigOp.DELETE:
            return f"{value.name} (taken back)"
        return _setting(value.name, value.value or "")
    if isinstance(value, Rule | RuleFilter):
        return _rule(value)
    if isinstance(value, QuotaChange):
        return _quota(value)
    if isinstance(value, Mapping):
        return _list(list(value.items()), lambda pair: _setting(str(pair[0]), pair[1]))
    # A partition is a tuple, and says what it is.
    if isinstance(value, Sequence) and not isinstance(value, str) and not hasattr(value, "_fields"):
        return _list(value, _text)
    return str(value)


def _rule(rule: Rule | RuleFilter) -> str:
    """What a filter leaves open is not there."""
    parts = (
        rule.permission,
        rule.principal,
        rule.verb or ("all" if isinstance(rule, Rule) else None),
        rule.resource,
        None if rule.pattern in _USUAL_PATTERNS else rule.pattern,
        rule.name,
    )
    host = () if rule.host in (None, ANY) else (f"from {rule.host}",)
    return " ".join((*(_text(part) for part in parts if part is not None), *host))


def _quota(change: QuotaChange) -> str:
    whom = (
        f"{kind}={name or '(default)'}"
        for kind, name in change.entity._asdict().items()
        if name is not None
    )
    values = (
        f"{name} (taken back)" if value is None else f"{name}={value:g}"
        for name, value in change.values.items()
    )
    return " ".join((*whom, *values))


def _list(every: Sequence[T], text: Callable[[T], str]) -> str:
    """Only what is shown is written: a request may have thousands."""
    more = len(every) - _LISTED_MAX
    return ", ".join(map(text, every[:_LISTED_MAX])) + (f" and {more} more" if more > 0 else "")


def _setting(name: str, value: object) -> str:
    known = next((table[name] for table in _TABLES if name in table), None)
    return name if known is None or known.is_secret else f"{name}={value}"
