"""Sessions of browsers that were given back before their time was over."""

import msgspec


class EndedSession(msgspec.Struct, frozen=True, kw_only=True):
    """Kept until it would have ended by itself."""

    expires_ms: int
