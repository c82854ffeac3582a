"""`goqueue whoami`: as whom the broker takes one."""

from goqueue.cli.http_access import HttpOption, http_api
from goqueue.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption
from goqueue.cli.output import print_document, print_rows


def whoami(
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show as whom the broker takes you; User:ANONYMOUS where nobody logs in."""
    found = http_api(bootstrap, http).get("whoami")
    if output is not Output.TABLE:
        print_document(found, output)
        return
    row = {**found, "tenant": found["tenant"] or None}
    print_rows([row], output, columns={"principal": "Principal", "tenant": "Tenant"})
