"""Subscriptions to clients' metrics: changed, and described."""

from collections.abc import Mapping, Sequence
from functools import partial

from goqueue.broker.topics.changing import ChangeTexts, KeyChanges
from goqueue.broker.topics.configs import apply_changes, entry
from goqueue.broker.topics.following import MetadataFollower
from goqueue.model.client_metrics.config import (
    CLIENT_METRICS_SETTINGS,
    SUBSCRIPTIONS_MAX,
    check_names,
    check_subscription_name,
)
from goqueue.model.configs import ConfigChange, ConfigEntry, ConfigSource, ConfigSynonym
from goqueue.model.errors import PolicyViolation
from goqueue.model.rights import ConfigurableCluster, InspectableCluster
from goqueue.state import metadata_keys as keys
from goqueue.state.client_metrics.subscriptions import Subscription
from goqueue.state.membership.feature_levels import Feature


class ClientMetricsConfigs:
    """A subscription is there while it has a setting."""

    def __init__(self, changes: KeyChanges, follower: MetadataFollower) -> None:
        self._changes = changes
        self._follower = follower

    def subscriptions(self) -> Mapping[str, Mapping[str, str]]:
        return self._follower.image.client_metrics

    def describe(self, _cluster: InspectableCluster, name: str) -> list[ConfigEntry]:
        check_subscription_name(name)
        own = self.subscriptions().get(name, {})
        entries = []
        for each, setting in CLIENT_METRICS_SETTINGS.items():
            default = setting.format(setting.default)
            synonyms = [ConfigSynonym(each, default, ConfigSource.DEFAULT)]
            if each in own:
                synonyms.insert(0, ConfigSynonym(each, own[each], ConfigSource.CLIENT_METRICS))
            entries.append(entry(setting, synonyms, read_only=False))
        return entries

    async def alter(
        self,
        _cluster: ConfigurableCluster,
        name: str,
        changes: Sequence[ConfigChange],
        *,
        validate_only: bool = False,
    ) -> None:
        check_names(change.name for change in changes)
        await self._set(
            name,
            lambda current: apply_changes(current, changes, CLIENT_METRICS_SETTINGS),
            validate_only=validate_only,
        )

    async def replace(
        self,
        _cluster: ConfigurableCluster,
        name: str,
        config: Mapping[str, str],
        *,
        validate_only: bool = False,
    ) -> None:
        await self._set(name, lambda _: config, validate_only=validate_only)

    async def _set(self, name: str, change: ChangeTexts, *, validate_only: bool) -> None:
        check_subscription_name(name)

        def checked(current: Mapping[str, str]) -> Mapping[str, str]:
            texts = change(current)
            Subscription(texts)
            if texts and not current and len(self.subscriptions()) >= SUBSCRIPTIONS_MAX:
                raise PolicyViolation(
                    f"there are {SUBSCRIPTIONS_MAX} subscriptions to client metrics already"
                )
            return texts

        stored = partial(keys.client_metrics_entry, name)
        await self._changes.change_texts(
            stored, checked, Feature.CLIENT_METRICS, validate_only=validate_only
        )
