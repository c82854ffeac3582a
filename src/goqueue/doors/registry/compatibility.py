"""/compatibility: whether a schema could be registered."""

import msgspec

from goqueue.broker.schemas_compatibility import Mismatch
from goqueue.doors.registry.requests import Call, new_schema, parse_version
from goqueue.state.schemas.errors import RegistryRefusal
from goqueue.state.schemas.messages import Version


class CompatibilityAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    is_compatible: bool
    messages: list[str] | None = None


async def check_version(call: Call) -> CompatibilityAnswer:
    number = parse_version(call.parts[1])
    new = await new_schema(call)
    version: Version | None = None
    try:
        version = call.schemas.catalogue.version(call.subject, number)
    except RegistryRefusal:
        # Nothing is there to be compatible with; a version that is named must be there.
        if number is not None:
            raise
    mismatch = await call.schemas.check(
        call.subject, new, version=version, normalize=call.query.flag("normalize")
    )
    return _answer(call, mismatch)


async def check_all(call: Call) -> CompatibilityAnswer:
    """As registering would."""
    mismatch = await call.schemas.check(
        call.subject,
        await new_schema(call),
        version=None,
        normalize=call.query.flag("normalize"),
    )
    return _answer(call, mismatch)


def _answer(call: Call, mismatch: Mismatch | None) -> CompatibilityAnswer:
    messages = [] if mismatch is None else mismatch.messages()
    return CompatibilityAnswer(mismatch is None, messages if call.query.flag("verbose") else None)
