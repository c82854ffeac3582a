"""Settings of single groups: changed, described, and handed to those who act on them."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Final

from goqueue.broker.topics.changing import ChangeTexts, KeyChanges
from goqueue.broker.topics.configs import apply_changes, entry
from goqueue.broker.topics.following import MetadataFollower
from goqueue.model.broker_config import BROKER_SETTINGS, BrokerConfig
from goqueue.model.configs import ConfigChange, ConfigEntry, ConfigSource, ConfigSynonym
from goqueue.model.errors import InvalidRequest
from goqueue.model.groups.config import (
    BROKER_NAMES,
    GROUP_SETTINGS,
    GroupConfig,
    check_group_config,
    group_config,
)
from goqueue.model.rights import ConfigurableGroup, InspectableGroup
from goqueue.model.settings import Value, field_name, field_values
from goqueue.state import metadata_keys as keys
from goqueue.state.groups.settings import GroupOverrides
from goqueue.state.membership.feature_levels import Feature

_OVERRIDABLE: Final = tuple(field.name for field in fields(GroupOverrides))


class GroupConfigs:
    def __init__(
        self, changes: KeyChanges, follower: MetadataFollower, config: BrokerConfig
    ) -> None:
        self._changes = changes
        self._follower = follower
        self.use_defaults(config)

    def use_defaults(self, config: BrokerConfig) -> None:
        """What holds for groups that say nothing themselves."""
        self._defaults: dict[str, Value] = {
            name: getattr(config, field_name(broker_name))
            for name, broker_name in BROKER_NAMES.items()
        }
        self._parsed: dict[str, tuple[Mapping[str, str], GroupConfig]] = {}
        self._plain = group_config({}, self._defaults)

    def of(self, group: str) -> GroupConfig:
        """What holds for a group now."""
        texts = self._follower.image.group_configs.get(group)
        if not texts:
            return self._plain
        known = self._parsed.get(group)
        if known is None or known[0] is not texts:
            known = self._parsed[group] = (texts, group_config(texts, self._defaults))
        return known[1]

    def overrides(self) -> dict[str, GroupOverrides]:
        """What the group coordinator must know of groups that have settings of their own."""
        found = {}
        for group, texts in self._follower.image.group_configs.items():
            own = field_values(check_group_config(texts))
            times = {name: int(own[name]) for name in _OVERRIDABLE if name in own}
            if times:
                found[group] = GroupOverrides(**times)
        return found

    async def alter(
        self,
        group: ConfigurableGroup,
        changes: Sequence[ConfigChange],
        *,
        validate_only: bool = False,
    ) -> None:
        await self._set(
            group,
            lambda current: apply_changes(current, changes, GROUP_SETTINGS),
            validate_only=validate_only,
        )

    async def replace(
        self, group: ConfigurableGroup, config: Mapping[str, str], *, validate_only: bool = False
    ) -> None:
        await self._set(group, lambda _: config, validate_only=validate_only)

    def describe(self, group: InspectableGroup) -> list[ConfigEntry]:
        if not group:
            raise InvalidRequest("group name: is empty")
        own = self._follower.image.group_configs.get(group, {})
        entries = []
        for name, setting in GROUP_SETTINGS.items():
            synonyms = []
            if name in own:
                synonyms.append(ConfigSynonym(name, own[name], ConfigSource.GROUP))
            broker_name = BROKER_NAMES.get(name)
            if broker_name is not None:
                value = setting.format(self._defaults[name])
                usual = setting.format(BROKER_SETTINGS[broker_name].default)
                source = ConfigSource.DEFAULT if value == usual else ConfigSource.STATIC_BROKER
                synonyms.append(ConfigSynonym(broker_name, value, source))
            else:
                usual = setting.format(setting.default)
                synonyms.append(ConfigSynonym(name, usual, ConfigSource.DEFAULT))
            entries.append(entry(setting, synonyms, read_only=False))
        return entries

    async def _set(self, group: str, change: ChangeTexts, *, validate_only: bool) -> None:
        if not group:
            raise InvalidRequest("group name: is empty")

        def checked(current: Mapping[str, str]) -> Mapping[str, str]:
            texts = change(current)
            check_group_config(texts)
            return texts

        stored = partial(keys.group_config_entry, group)
        await self._changes.change_texts(
            stored, checked, Feature.GROUP_SETTINGS, validate_only=validate_only
        )
