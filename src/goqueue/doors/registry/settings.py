"""/config and /mode: of a subject, of a context, of all contexts."""

from typing import Final

import msgspec

from goqueue.doors.registry.requests import Call, named_in_schema
from goqueue.model.schemas.errors import RefusalKind, RegistryRefusal
from goqueue.model.schemas.messages import CompatibilityLevel, Mode, SubjectConfig


class ConfigBody(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What is null is to be cleared, what is left out stays."""

    compatibility: str | msgspec.UnsetType | None = msgspec.UNSET
    compatibility_level: str | msgspec.UnsetType | None = msgspec.UNSET
    normalize: bool | msgspec.UnsetType | None = msgspec.UNSET
    alias: str | msgspec.UnsetType | None = msgspec.UNSET
    compatibility_group: str | msgspec.UnsetType | None = msgspec.UNSET
    validate_fields: bool | None = None
    validate_rules: bool | None = None
    validate_names: bool | None = None
    default_metadata: msgspec.Raw | None = None
    override_metadata: msgspec.Raw | None = None
    default_rule_set: msgspec.Raw | None = None
    override_rule_set: msgspec.Raw | None = None


class ConfigAnswer(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    compatibility_level: str | None = None
    normalize: bool | None = None
    alias: str | None = None
    compatibility_group: str | None = None


class ModeBody(msgspec.Struct, frozen=True):
    mode: str | None


_CONFIG: Final = msgspec.json.Decoder(ConfigBody)
_MODE: Final = msgspec.json.Decoder(ModeBody)
_NULL: Final = b"null"
_UNSUPPORTED: Final = {
    "validate_fields": "validateFields",
    "validate_rules": "validateRules",
    "validate_names": "validateNames",
    "default_metadata": "defaultMetadata",
    "override_metadata": "overrideMetadata",
    "default_rule_set": "defaultRuleSet",
    "override_rule_set": "overrideRuleSet",
}


def _with_defaults(call: Call) -> bool:
    """What counts where nothing is set is told of the widest scope in any case; that of a tenant
    is a context, to the broker."""
    return call.query.flag("defaultToGlobal") or call.is_widest


# --- config -------------------------------------------------------------------------------


async def show_config(call: Call) -> ConfigAnswer:
    config = await call.service.schemas.config(
        call.caller, call.scope, default_to_global=_with_defaults(call)
    )
    return _config_answer(config)


async def set_config(call: Call) -> ConfigBody:
    """Answers with what is set there now, in the words of the request."""
    body = await call.body(_CONFIG)
    for name, shown in _UNSUPPORTED.items():
        value = getattr(body, name)
        if value and not (isinstance(value, msgspec.Raw) and bytes(value) == _NULL):
            raise RegistryRefusal(
                RefusalKind.UNSUPPORTED, f"{shown}: this registry does not know it; leave it out"
            )
    config, cleared = _changes(call, body)
    now = await call.service.schemas.set_config(call.caller, call.scope, config, cleared=cleared)
    return ConfigBody(
        compatibility=now.compatibility or msgspec.UNSET,
        normalize=msgspec.UNSET if now.normalize is None else now.normalize,
        alias=now.alias or msgspec.UNSET,
        compatibility_group=now.compatibility_group or msgspec.UNSET,
        validate_fields=body.validate_fields,
        validate_rules=body.validate_rules,
        validate_names=body.validate_names,
    )


def _changes(call: Call, body: ConfigBody) -> tuple[SubjectConfig, frozenset[str]]:
    """What is to be set, and the names of what is to be cleared."""
    level = body.compatibility
    if level is msgspec.UNSET:
        level = body.compatibility_level
    given = {
        "compatibility": level,
        "normalize": body.normalize,
        "alias": body.alias,
        "compatibility_group": body.compatibility_group,
    }
    if all(value is msgspec.UNSET for value in given.values()):
        raise _invalid_level()
    config = SubjectConfig(
        compatibility=_level(level) if isinstance(level, str) else None,
        normalize=body.normalize if isinstance(body.normalize, bool) else None,
        alias=named_in_schema(call.tenant, body.alias) if isinstance(body.alias, str) else None,
        compatibility_group=(
            body.compatibility_group if isinstance(body.compatibility_group, str) else None
        ),
    )
    return config, frozenset(name for name, value in given.items() if value is None)


async def delete_config(call: Call) -> ConfigAnswer:
    return _config_answer(await call.service.schemas.delete_config(call.caller, call.scope))


def _config_answer(config: SubjectConfig) -> ConfigAnswer:
    return ConfigAnswer(
        config.compatibility, config.normalize, config.alias, config.compatibility_group
    )


def _level(text: str) -> CompatibilityLevel:
    try:
        return CompatibilityLevel(text.upper())
    except ValueError:
        raise _invalid_level() from None


def _invalid_level() -> RegistryRefusal:
    return RegistryRefusal(
        RefusalKind.INVALID_COMPATIBILITY,
        "Invalid compatibility level. Valid values are none, backward, forward, full, "
        "backward_transitive, forward_transitive, and full_transitive",
    )


# --- mode ---------------------------------------------------------------------------------


async def show_mode(call: Call) -> ModeBody:
    mode = await call.service.schemas.mode(
        call.caller, call.scope, default_to_global=_with_defaults(call)
    )
    return ModeBody(mode)


async def set_mode(call: Call) -> ModeBody:
    body = await call.body(_MODE)
    if body.mode is None:
        await call.service.schemas.delete_mode(call.caller, call.scope)
        return body
    try:
        mode = Mode(body.mode.upper())
    except ValueError:
        raise RegistryRefusal(
            RefusalKind.INVALID_MODE,
            "Invalid mode. Valid values are READWRITE, READONLY, and IMPORT.",
        ) from None
    await call.service.schemas.set_mode(
        call.caller, call.scope, mode, is_forced=call.query.flag("force")
    )
    return body


async def delete_mode(call: Call) -> ModeBody:
    return ModeBody(await call.service.schemas.delete_mode(call.caller, call.scope))
