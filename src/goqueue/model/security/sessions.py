"""Sessions of browsers that were given back before their time was over."""

import msgspec


class EndedSession(msgspec.Struct, frozen=True, kw_only=True):
    """One session of the user, by its id; or all that end until then, by the user's name. Kept
    until it would have ended by itself."""

    expires_ms: int
    user: str = ""
