"""`python -m goqueue` is the `goqueue` command."""

from goqueue.cli.main import app

if __name__ == "__main__":
    app(prog_name="goqueue")
