"""/compatibility: whether a schema could be registered."""

from collections.abc import Awaitable

import msgspec

from goqueue.doors.registry.requests import Call, new_schema, parse_version
from goqueue.model.schemas.errors import RefusalKind, RegistryRefusal
from goqueue.model.schemas.mismatch import Mismatch


class CompatibilityAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    is_compatible: bool
    messages: list[str] | None = None


async def check_version(call: Call) -> CompatibilityAnswer:
    number = parse_version(call.parts[1])
    checking = call.service.schemas.check_version(
        call.caller,
        call.subject,
        number,
        await new_schema(call),
        normalize=call.query.flag("normalize"),
    )
    return await _checked(call, checking)


async def check_all(call: Call) -> CompatibilityAnswer:
    """As registering would."""
    checking = call.service.schemas.check(
        call.caller, call.subject, await new_schema(call), normalize=call.query.flag("normalize")
    )
    return await _checked(call, checking)


async def _checked(call: Call, checking: Awaitable[Mismatch | None]) -> CompatibilityAnswer:
    is_verbose = call.query.flag("verbose")
    try:
        mismatch = await checking
    except RegistryRefusal as refusal:
        if not is_verbose or refusal.kind is not RefusalKind.INVALID_SCHEMA:
            raise
        return CompatibilityAnswer(False, [str(refusal)])
    messages = [] if mismatch is None else mismatch.messages()
    return CompatibilityAnswer(mismatch is None, messages if is_verbose else None)
