"""Ending many transactions at once: the writers' coordinator, seen from whoever started them."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from goqueue.client.errors import BrokerUnreachable
from goqueue.client.http_address import find_http_urls
from goqueue.client.http_api import HttpApi, HttpRefused, HttpUnreachable
from goqueue.client.log_writer import ProducerIdentity
from goqueue.client.patience import Patience
from goqueue.model.client_security import NO_SECURITY, ClientSecurity

_TRY_AGAIN: Final = 503
# Longer than a broker waits for the answer of another one.
_TIMEOUT_S: Final = 40.0


class TransactionGroup:
    """A group by its name. Every request can be repeated, and is while the broker is away."""

    def __init__(
        self,
        group_id: str,
        *,
        bootstrap_servers: str,
        http_url: str | None = None,
        delivery_timeout_ms: int,
        security: ClientSecurity = NO_SECURITY,
    ) -> None:
        """`http_url` may be several, with commas between. The brokers are asked for their addresses
        where it is not given, or does not answer."""
        self.group_id = group_id
        self._security = security
        self._bootstrap_servers = bootstrap_servers
        self._http_url = http_url
        self._delivery_timeout_ms = delivery_timeout_ms
        self._api: HttpApi | None = None if http_url is None else _api(http_url, security)

    def is_committed(self, sequence: int) -> bool:
        found = self._ask(lambda api: api.get("transactions", "groups", self.group_id))
        last = found["lastCommitted"]
        return last is not None and sequence <= last

    def commit(
        self, sequence: int, members: Sequence[ProducerIdentity], *, close_ms: int | None = None
    ) -> bool:
        """All or nothing; False if this sequence was committed before.

        With `close_ms` the group takes no members afterwards, and is forgotten after that time.
        """
        body: dict[str, object] = {"sequence": sequence, "members": _show(members)}
        return self._end("commit", body | _closing(close_ms)) == "committed"

    def abort(
        self,
        sequence: int,
        members: Sequence[ProducerIdentity] | None = None,
        *,
        close_ms: int | None = None,
    ) -> None:
        """The named members, or all that are open. A committed sequence stays committed."""
        body: dict[str, object] = {"sequence": sequence, **_closing(close_ms)}
        if members is not None:
            body["members"] = _show(members)
        self._end("abort", body)

    def renew(self) -> None:
        """The time-outs of all open members begin anew; a new member does the same."""
        path = ("transactions", "groups", self.group_id, "renew")
        self._ask(lambda api: api.post(*path, body={}))

    def _end(self, how: str, body: dict[str, object]) -> str:
        path = ("transactions", "groups", self.group_id, how)
        return str(self._ask(lambda api: api.post(*path, body=body))["outcome"])

    def _ask(self, ask: Callable[[HttpApi], Any]) -> Any:
        patience = Patience(self._delivery_timeout_ms)
        while True:
            try:
                if self._api is None:
                    self._api = self._found()
                return ask(self._api)
            except (HttpUnreachable, BrokerUnreachable) as error:
                # Others may be there by now.
                self._api = None
                patience.wait(error)
            except HttpRefused as error:
                if error.status != _TRY_AGAIN:
                    raise
                assert self._api is not None
                self._api.begin_elsewhere()
                patience.wait(error)

    def _found(self) -> HttpApi:
        try:
            found = find_http_urls(self._bootstrap_servers, self._security)
        except BrokerUnreachable:
            if self._http_url is None:
                raise
            return _api(self._http_url, self._security)
        urls = found if self._http_url is None else f"{self._http_url},{found}"
        return _api(urls, self._security)


def _api(urls: str, security: ClientSecurity) -> HttpApi:
    return HttpApi(urls, timeout_s=_TIMEOUT_S, security=security)


def _closing(close_ms: int | None) -> dict[str, object]:
    return {} if close_ms is None else {"close": True, "keepMs": close_ms}


def _show(members: Sequence[ProducerIdentity]) -> list[dict[str, object]]:
    return [
        {
            "transactionalId": each.transactional_id,
            "producerId": each.producer_id,
            "epoch": each.producer_epoch,
        }
        for each in members
    ]
