"""Tags of a queue: kept for their owners, without a meaning of their own."""

from collections.abc import Mapping
from typing import Final

from goqueue.model.errors import InvalidRequest

# SQS Developer Guide, "Tagging quotas".
TAGS_MAX: Final = 50
KEY_MAX_LENGTH: Final = 128
VALUE_MAX_LENGTH: Final = 256


def check_tags(tags: Mapping[str, str]) -> None:
    if len(tags) > TAGS_MAX:
        raise InvalidRequest(f"Too many tags added: {len(tags)}; a queue has at most {TAGS_MAX}.")
    for key, value in tags.items():
        if not 1 <= len(key) <= KEY_MAX_LENGTH or key.lower().startswith("aws:"):
            raise InvalidRequest(
                f"Tag keys must be between 1 and {KEY_MAX_LENGTH} characters in length and must "
                "not begin with aws:."
            )
        if len(value) > VALUE_MAX_LENGTH:
            raise InvalidRequest(
                f"Tag values must be at most {VALUE_MAX_LENGTH} characters in length."
            )
