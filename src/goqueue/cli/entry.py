"""What the `goqueue` command runs first."""

import os
import sys

from goqueue.cli.broker.plain_serve import read_plain_serve, run_plain_serve


def main() -> None:
    # A shell that asks for completions runs the command, too, with this variable.
    plain = None if "_GOQUEUE_COMPLETE" in os.environ else read_plain_serve(sys.argv[1:])
    if plain is not None:
        sys.exit(run_plain_serve(plain))

    from goqueue.cli.main import app

    app(prog_name="goqueue")
