"""Sessions of browsers that were given back before their time was over."""

import msgspec


class EndedSession(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Kept until it would have ended by itself."""

    expires_ms: int
    # Whose it was; unknown of those from before this was kept.
    user: str = ""
