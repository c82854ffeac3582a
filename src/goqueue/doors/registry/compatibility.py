"""/compatibility: whether a schema could be registered."""

import msgspec

from goqueue.broker.schemas.schemas import NewSchema
from goqueue.doors.registry.requests import Call, new_schema, parse_version
from goqueue.model.schemas.errors import RefusalKind, RegistryRefusal, version_not_found
from goqueue.model.schemas.messages import Version


class CompatibilityAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    is_compatible: bool
    messages: list[str] | None = None


async def check_version(call: Call) -> CompatibilityAnswer:
    number = parse_version(call.parts[1])
    new = await new_schema(call)
    catalogue, subject = call.schemas.catalogue, call.subject
    # Without a latest version, nothing is there to be compatible with.
    olds = [version for version in (catalogue.latest(subject),) if version]
    if number is not None:
        olds = [version for version in catalogue.versions(subject) if version.number == number]
        if not olds:
            raise version_not_found(number)
    return await _checked(call, new, olds)


async def check_all(call: Call) -> CompatibilityAnswer:
    """As registering would."""
    return await _checked(call, await new_schema(call), None)


async def _checked(call: Call, new: NewSchema, olds: list[Version] | None) -> CompatibilityAnswer:
    is_verbose = call.query.flag("verbose")
    try:
        mismatch = await call.schemas.check(
            call.subject, new, olds=olds, normalize=call.query.flag("normalize")
        )
    except RegistryRefusal as refusal:
        if not is_verbose or refusal.kind is not RefusalKind.INVALID_SCHEMA:
            raise
        return CompatibilityAnswer(False, [str(refusal)])
    messages = [] if mismatch is None else mismatch.messages()
    return CompatibilityAnswer(mismatch is None, messages if is_verbose else None)
