"""Settings of companions (`model/companions.py`): in part those of the topic they belong to.

How safe what is committed is must be the same in both: a message of a queue is not safer than the
note that it was acknowledged. So a companion has these settings from its topic, whatever it was
given itself. They are looked up there, not copied, so that none can lag behind. Pure.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from goqueue.model.companions import KINDS, companion_of, is_companion, kind_and_owner
from goqueue.model.errors import PolicyViolation
from goqueue.model.topics import TopicView
from goqueue.state.metadata_image import ImageChanges, MetadataImage

OWNERS_SETTINGS: Final = (
    "flush.messages",
    "flush.ms",
    "fsync.policy",
    "min.insync.replicas",
    "unclean.leader.election.enable",
)


def companion_settings(own: Mapping[str, str], owner: Mapping[str, str]) -> dict[str, str]:
    """What holds of a companion that was given `own`, and whose topic has the settings `owner`."""
    taken = {name: owner[name] for name in OWNERS_SETTINGS if name in owner}
    return {name: text for name, text in own.items() if name not in OWNERS_SETTINGS} | taken


def settings_said(topic: TopicView, image: MetadataImage) -> Mapping[str, str]:
    """What holds of any topic before all defaults."""
    companion = kind_and_owner(topic.name)
    owner = None if companion is None else image.topics_by_id.get(companion[1])
    return topic.config if owner is None else companion_settings(topic.config, owner.config)


def check_change(name: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """What would be of no effect is refused."""
    for setting in OWNERS_SETTINGS if is_companion(name) else ():
        if after.get(setting) not in (None, before.get(setting)):
            raise PolicyViolation(f"{setting}: {name!r} has that of the topic it belongs to")


def reconfigured(changes: ImageChanges, image: MetadataImage) -> Iterator[TopicView]:
    """Topics of which other settings may hold now."""
    if changes.broker_configs_changed:
        yield from image.topics.values()
        return
    for topic in changes.topics_reconfigured:
        yield topic
        names = (companion_of(kind, topic.id) for kind in KINDS)
        yield from (image.topics[name] for name in names if name in image.topics)
    # Opened before the image showed the topic that it belongs to, where both came at once.
    yield from (topic for topic in changes.topics_created if is_companion(topic.name))
