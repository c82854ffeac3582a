"""Delegation tokens (KIP-48): a user's word that others may act for it, for a while."""

import msgspec


class DelegationToken(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Principals are written `User:alice`; `tenant` is the owner's. The token's secret is made from
    the master key and its id, and not kept."""

    id: str
    owner: str
    requester: str
    renewers: tuple[str, ...] = ()
    issued_ms: int
    expires_ms: int
    max_ms: int
    tenant: str = ""
    # Whether the owner is a user that the broker keeps, and with whom the token ends.
    is_of_user: bool = True
