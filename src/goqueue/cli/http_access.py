"""How commands that talk HTTP find the broker: by its Kafka address, as all other commands do."""

from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.failures import CommandFailed
from goqueue.cli.security.connecting import connection, http_security, kafka_security

if TYPE_CHECKING:
    from goqueue.client.http_api import HttpApi

HttpOption = Annotated[
    str | None,
    typer.Option(
        "--http",
        envvar="GOQUEUE_HTTP_URL",
        metavar="URL",
        help="HTTP address, several with commas between; only needed if the one that the broker "
        "tells cannot be reached.",
        show_default=False,
    ),
]


def http_api(bootstrap: str, given_url: str | None) -> "HttpApi":
    """The API at the address given, else at the one that the broker tells."""
    from goqueue.client.http_api import HttpApi

    security = http_security()
    url = given_url or connection().http_url()
    if url:
        return HttpApi(url, security=security)
    if security.token and not security.username:
        raise CommandFailed(
            "an API key is for HTTP, and the broker's Kafka port, which tells the address, takes "
            "none: name the address with --http, such as https://localhost:8080"
        )
    from goqueue.client.http_address import find_http_url

    return HttpApi(find_http_url(bootstrap, kafka_security()), security=security)


def http_urls(bootstrap: str, given_url: str | None) -> str:
    """Of all brokers, with commas between."""
    from goqueue.client.http_address import find_http_urls

    url = given_url or connection().http_url()
    return url or find_http_urls(bootstrap, kafka_security())
