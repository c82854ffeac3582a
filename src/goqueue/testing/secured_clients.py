"""What clients of a broker in a test need to know: where it is, and how to log in."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.client_security import NO_SECURITY, ClientSecurity

if TYPE_CHECKING:
    from goqueue.client.http_api import HttpApi
    from goqueue.testing.secured import Secured

ADMIN: Final = "admin"
# Nobody else reaches the broker of a test.
ADMIN_PASSWORD: Final = "the admin's password"
MECHANISM: Final = "SCRAM-SHA-256"
_REGION: Final = "us-east-1"


class SecuredClients(ABC):
    """Settings for clients of a broker in a test; without `security` they say where it is."""

    # None where everybody may do everything.
    secured: "Secured | None" = None

    @abstractmethod
    def _addresses(self) -> tuple[str, str]:
        """For Kafka clients, and for HTTP."""

    def client_security(
        self, username: str = ADMIN, password: str = ADMIN_PASSWORD
    ) -> ClientSecurity:
        """For the clients of GoQueue itself."""
        if self.secured is None:
            return NO_SECURITY
        return self.secured.client_security(username, password)

    def client_config(
        self, username: str = ADMIN, password: str = ADMIN_PASSWORD
    ) -> dict[str, str | int | float | bool]:
        """For confluent-kafka: `Producer(broker.client_config())`."""
        config: dict[str, str | int | float | bool] = {"bootstrap.servers": self._addresses()[0]}
        if self.secured is not None:
            config |= {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": MECHANISM,
                "sasl.username": username,
                "sasl.password": password,
                "ssl.ca.location": self.secured.ca_file,
            }
        return config

    def http_client_kwargs(
        self, username: str = ADMIN, password: str = ADMIN_PASSWORD
    ) -> dict[str, Any]:
        """For httpx: `httpx.Client(**broker.http_client_kwargs())`."""
        kwargs: dict[str, Any] = {"base_url": self._addresses()[1]}
        if self.secured is not None:
            import ssl

            kwargs["verify"] = ssl.create_default_context(cafile=self.secured.ca_file)
            kwargs["auth"] = (username, password)
        return kwargs

    def sqs_client_kwargs(self, username: str = ADMIN) -> dict[str, Any]:
        """For boto3: `boto3.client("sqs", **broker.sqs_client_kwargs())`; makes a key each time."""
        kwargs: dict[str, Any] = {"endpoint_url": self._addresses()[1], "region_name": _REGION}
        if self.secured is None:
            return {**kwargs, "aws_access_key_id": "any", "aws_secret_access_key": "any"}
        made = self._administration.post("users", username, "keys", body={"kind": "sqs"})
        return {
            **kwargs,
            "verify": self.secured.ca_file,
            "aws_access_key_id": made["id"],
            "aws_secret_access_key": made["secret"],
        }

    def create_user(
        self, name: str, password: str, *, rules: tuple[dict[str, str], ...] = (), **more: object
    ) -> None:
        """`rules` as the HTTP API takes them, for this user: `{"resource": "topic", "name": …}`."""
        api = self._administration
        api.post("users", body={"name": name, "password": password, **more})
        if rules:
            filled = [{"principal": f"User:{name}", **rule} for rule in rules]
            api.post("rules", body={"rules": filled})

    @property
    def _administration(self) -> "HttpApi":
        from goqueue.client.http_api import HttpApi

        return HttpApi(self._addresses()[1], security=self.client_security())
