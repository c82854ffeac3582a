"""Somebody who follows a page: a shell, Python, and a broker of their own."""

import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, chdir, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from goqueue.testing import ServerProcess
from tests.busy_machine import stretched
from tests.docs.pages import ROOT, Block, Command
from tests.docs.readers_own import messages_keep_coming, names_for
from tests.docs.shown_output import ShownOutput

_COMMAND_SECONDS: Final = 60
_KAFKA, _HTTP = "127.0.0.1:9092", "127.0.0.1:8080"
_STARTS_BROKER: Final = re.compile(r"((?:\w+=\S+ )*)(?:make run|goqueue serve)\b([^#]*)")
_NEEDS_STOPPED_BROKER: Final = "goqueue data "
_READ_IN_A_LOOP: Final = re.compile(r'\["(\w+)"\].*\bwhile\b', re.DOTALL)
_PORTS: Final = re.compile(r"--(?:kafka|http)-port \d+")
# What a page may name of the checkout it is read in.
_CHECKOUT: Final = ("deploy", "demo", "bench")


class Reader:
    def __init__(self, folder: Path) -> None:
        self.folder = folder / "checkout"
        self.folder.mkdir()
        (self.folder / ".venv").symlink_to(sys.prefix)
        (self.folder / ".curlrc").write_text("silent\nshow-error\n")
        for name in _CHECKOUT:
            (self.folder / name).symlink_to(ROOT / name)
        self._brokers = 0
        self._broker: ServerProcess | None = None
        self._shell: _Shell | None = None
        self._seen = ShownOutput()
        self._names: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._shell is not None:
            self._shell.close()
        if self._broker is not None:
            self._broker.close()

    def follow(self, block: Block) -> Iterator[str]:
        """Do what the block says, and tell what came out otherwise than the page shows."""
        if block.is_only_read:
            return
        if block.file is not None:
            path = self.folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.here(block.text))
        elif block.kind == "python":
            # Lines of a traceback are the page's.
            code = compile("\n" * block.line + self.here(block.text), str(block.page), "exec")
            self._names |= names_for(self.broker)
            with chdir(self.folder), ExitStack() as others:
                if read := _READ_IN_A_LOOP.search(block.text):
                    others.enter_context(messages_keep_coming(self.broker, read[1]))
                # Ctrl-C is how a reader ends a loop that has no end.
                others.enter_context(suppress(KeyboardInterrupt))
                exec(code, self._names)
        else:
            for command in block.commands():
                yield from self._type(command, block.page)

    def _type(self, command: Command, page: Path) -> Iterator[str]:
        text = self._seen.with_ids_of_this_run(command.text)
        starting = _STARTS_BROKER.fullmatch(text.strip())
        if starting is not None:
            printed = self._start(starting[1].split(), starting[2]).log_text
        else:
            if text.startswith(_NEEDS_STOPPED_BROKER):
                self.broker.sigterm()
            printed = self.run(self.here(text))
        printed = self._as_in_pages(printed)
        shown = command.output
        # What a broker says at its start need not be shown each time.
        if shown is None or (starting is not None and not shown):
            return
        if self._seen.fits(_same_host(shown), printed):
            return
        yield (
            f"{page.relative_to(ROOT)}:{command.line}: $ {command.text}\n"
            f"--- the page shows\n{shown}\n--- printed was\n{printed}"
        )

    def run(self, text: str) -> str:
        if self._shell is None:
            environment = {
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "GOQUEUE_BOOTSTRAP": self.broker.bootstrap_servers,
                "TZ": "UTC",
                # In a terminal it shows no progress beside its output.
                "CURL_HOME": str(self.folder),
            }
            self._shell = _Shell(self.folder, environment)
        return self._shell.run(text)

    @property
    def broker(self) -> ServerProcess:
        return self._broker or self._start([], "")

    def _start(self, variables: list[str], options: str) -> ServerProcess:
        if self._broker is not None:
            self._broker.close()
        if self._shell is not None:
            # The next one has other ports.
            self._shell.close()
            self._shell = None
        self._brokers += 1
        environment = os.environ | dict(each.split("=", 1) for each in variables)
        self._broker = ServerProcess(
            self.folder / ("data" if self._brokers == 1 else f"data-{self._brokers}"),
            *_PORTS.sub("", options).split(),
            environment=environment,
        ).start()
        return self._broker

    def here(self, text: str) -> str:
        """With the addresses of this run's broker for the usual ones."""
        broker = self.broker
        http = broker.http_url.removeprefix("http://")
        return _same_host(text).replace(_KAFKA, broker.bootstrap_servers).replace(_HTTP, http)

    def _as_in_pages(self, printed: str) -> str:
        broker = self.broker
        http = broker.http_url.removeprefix("http://")
        return _same_host(printed.replace(broker.bootstrap_servers, _KAFKA).replace(http, _HTTP))


def _same_host(text: str) -> str:
    return re.sub(r"\blocalhost:(9092|8080)\b", r"127.0.0.1:\1", text)


class _Shell:
    """One bash for all commands: what they export and where they go stays."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            ["bash", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )

    def run(self, command: str) -> str:
        """What it prints on both outputs, as a terminal shows them."""
        assert self._process.stdin is not None
        end = f"end-of-{time.monotonic_ns()}"
        self._process.stdin.write(f"{{ {command}\n}} </dev/null\necho {end}\n".encode())
        self._process.stdin.flush()
        return self._read_until(f"{end}\n".encode())

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _read_until(self, end: bytes) -> str:
        assert self._process.stdout is not None
        output = self._process.stdout.fileno()
        deadline = time.monotonic() + stretched(_COMMAND_SECONDS)
        printed = b""
        while not printed.endswith(end):
            if not select.select([output], [], [], max(0, deadline - time.monotonic()))[0]:
                return f"{printed.decode()}\n(does not end)"
            some = os.read(output, 65_536)
            if not some:
                return f"{printed.decode()}\n(the shell has ended)"
            printed += some
        return printed.removesuffix(end).decode(errors="replace")
