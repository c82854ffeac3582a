"""How commands that talk HTTP find the broker: by its Kafka address, as all other commands do."""

from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.failures import CommandFailed
from goqueue.cli.security.connecting import client_security, connection, of_profile

if TYPE_CHECKING:
    from goqueue.client.http_api import HttpApi

HttpOption = Annotated[
    str | None,
    typer.Option(
        "--http",
        envvar="GOQUEUE_HTTP_URL",
        metavar="URL",
        callback=of_profile("http"),
        help="HTTP address, several with commas between; only needed if the one that the broker "
        "tells cannot be reached.",
        show_default=False,
    ),
]


def http_api(bootstrap: str, given_url: str | None) -> "HttpApi":
    """The API at the address given, else at the one that the broker tells."""
    from goqueue.client.http_api import HttpApi

    security = client_security()
    if given_url:
        return HttpApi(given_url, security=security)
    if security is not None and not connection().profile().username:
        raise CommandFailed(
            "an API key is for HTTP, and says nothing to the broker's Kafka port, which tells the "
            "address: name it with --http, such as https://localhost:8080"
        )
    from goqueue.client.http_address import find_http_url

    return HttpApi(find_http_url(bootstrap, security), security=security)
