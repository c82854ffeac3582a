"""What a SCRAM log-in is held against: records of users, of brokers, of delegation tokens, and for
everybody else one that nobody can fit, so that who is not there cannot be told from who is."""

import asyncio
import base64
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from goqueue.broker.security.master_key import MasterKey
from goqueue.model.caller import Principal
from goqueue.model.security.logins import Login
from goqueue.model.security.tokens import DelegationToken
from goqueue.model.security.users import BROKERS, BROKERS_USER, USER_KIND, ScramRecord, User
from goqueue.state.security.image import SecurityImage
from goqueue.state.security.outside_names import Meant, meant_by
from goqueue.state.security.sasl.scram_server import Claim
from goqueue.state.security.scram import HASHES, ITERATIONS_MIN, SALT_BYTES, SHA_256, make_record

# Records that were made of secrets, 300 bytes each; making one takes some milliseconds.
MADE_MAX: Final = 10_000
# Of those that users' records have: each costs a hash whenever somebody is not there.
SHAPES_MAX: Final = 16
# They are made in threads; log-ins leave the processor to others.
AT_ONCE_MAX: Final = 2


class _Shape(NamedTuple):
    """What a record shows of itself to whoever names its user."""

    salt_bytes: int
    iterations: int


_USUAL: Final = _Shape(SALT_BYTES, ITERATIONS_MIN)


class FoundRecord(NamedTuple):
    """`login`: who it is if the proof fits; nobody's never does."""

    record: ScramRecord
    login: Login | None


class ScramRecords:
    def __init__(
        self,
        master_key: MasterKey,
        image: Callable[[], SecurityImage],
        clock_ms: Callable[[], int],
    ) -> None:
        self._master_key = master_key
        self._image = image
        self._clock_ms = clock_ms
        self._made: OrderedDict[tuple[str, str], ScramRecord] = OrderedDict()
        self._turns = asyncio.Semaphore(AT_ONCE_MAX)
        # By mechanism, of these users.
        self._shapes: Mapping[str, tuple[_Shape, ...]] = {}
        self._shapes_of: Mapping[str, User] = {}

    async def find(self, mechanism: str, claim: Claim, *, brokers_only: bool) -> FoundRecord:
        """`brokers_only`: the mechanism is not offered to clients."""
        if claim.name == BROKERS_USER and mechanism == SHA_256 and not claim.is_token:
            secret = self._master_key.secret("brokers", "").hex()
            record = await self._made_of(mechanism, claim.name, secret)
            return FoundRecord(record, Login(principal=BROKERS, mechanism=mechanism))
        if brokers_only:
            return self._nobody(mechanism, claim)
        image = self._image()
        if claim.is_token:
            token = image.tokens.get(claim.name)
            if token is None or token.expires_ms <= self._clock_ms():
                return self._nobody(mechanism, claim)
            secret = token_password(self._master_key, token)
            record = await self._made_of(mechanism, f"token {token.id}", secret)
            return FoundRecord(record, _of_token(mechanism, token, image))
        user = image.users.get(claim.name)
        if user is None or mechanism not in user.scram:
            return self._nobody(mechanism, claim)
        login = Login(
            principal=user.principal, mechanism=mechanism, user_created_ms=user.created_ms
        )
        return FoundRecord(user.scram[mechanism], login)

    def _nobody(self, mechanism: str, claim: Claim) -> FoundRecord:
        """The same at every time and every broker: a salt that changes would tell."""
        secret = self._master_key.secret(f"nobody {mechanism}", claim.name)
        key = hashlib.new(HASHES[mechanism], secret).digest()
        shape = _USUAL if claim.is_token else self._shape(mechanism, claim.name)
        record = ScramRecord(
            salt=hashlib.shake_256(secret).digest(shape.salt_bytes),
            iterations=shape.iterations,
            stored_key=key,
            server_key=key,
        )
        return FoundRecord(record, None)

    def _shape(self, mechanism: str, name: str) -> "_Shape":
        """One of those that users' records have: Kafka's tools make other ones than we do. A new
        one becomes that of some names, and leaves the others as they were."""
        users = self._image().users
        if users is not self._shapes_of:
            self._shapes_of, self._shapes = users, _shapes(users.values())

        def weight(shape: _Shape) -> bytes:
            return self._master_key.secret(f"shape {shape} {mechanism}", name)

        return max(self._shapes.get(mechanism, (_USUAL,)), key=weight)

    async def _made_of(self, mechanism: str, name: str, secret: str) -> ScramRecord:
        known = self._made.get((mechanism, name))
        if known is not None:
            self._made.move_to_end((mechanism, name))
            return known
        salt = self._master_key.secret(f"salt {mechanism}", name)[:SALT_BYTES]
        async with self._turns:
            record = await asyncio.to_thread(
                make_record, mechanism, secret, salt=salt, iterations=ITERATIONS_MIN
            )
        self._made[mechanism, name] = record
        if len(self._made) > MADE_MAX:
            self._made.popitem(last=False)
        return record


def _shapes(users: Iterable[User]) -> dict[str, tuple[_Shape, ...]]:
    """By mechanism; ours is always one of them."""
    found: dict[str, set[_Shape]] = {mechanism: set() for mechanism in HASHES}
    for user in users:
        for mechanism, record in user.scram.items():
            found[mechanism].add(_Shape(len(record.salt), record.iterations))
    return {
        mechanism: (_USUAL, *sorted(shapes - {_USUAL})[:SHAPES_MAX])
        for mechanism, shapes in found.items()
    }


def token_password(master_key: MasterKey, token: DelegationToken) -> str:
    """KIP-48: the HMAC in base64."""
    return base64.b64encode(master_key.secret("token", token.id)).decode()


def _of_token(mechanism: str, token: DelegationToken, image: SecurityImage) -> Login | None:
    """Who holds a token acts as its owner. One of an owner who is gone is worth nothing, and so is
    one of an owner from outside whose name means somebody else by now."""
    name = token.owner.partition(":")[2]
    owner = Principal(USER_KIND, name, token.tenant)
    if token.is_of_user:
        user = image.users.get(name)
        # As with keys: one that was made for an earlier user of the same name.
        if user is None or user.principal != owner or user.created_ms > token.issued_ms:
            return None
        meant = Meant(owner, user.created_ms)
    elif meant_by(name, image.users) == (owner, None):
        meant = Meant(owner, None)
    else:
        return None
    return Login(
        principal=owner,
        mechanism=mechanism,
        expires_ms=token.expires_ms,
        token_id=token.id,
        user_created_ms=meant.user_created_ms,
        is_outside=not token.is_of_user,
    )
