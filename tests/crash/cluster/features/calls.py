"""Requests to one broker of several: which does not matter, and what fails is counted."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final, Generic, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from goqueue.client.http_api import HttpApi, HttpRefused, HttpUnreachable
from tests.crash.cluster.features.peace import Peace

# Who asks a paused broker waits for this long.
ANSWER_S: Final = 6.0
CONNECT_S: Final = 2.0
# How long one thing is tried again and again; a cluster of three is never away for so long.
PATIENCE_S: Final = 90.0
RETRY_S: Final = 0.05
# Of failures without a reason, so many are told with all that is known.
EXAMPLES_MAX: Final = 20

Client = TypeVar("Client")
T = TypeVar("T")


class NotAnswered(Exception):
    """Nobody knows whether the request took effect."""


class Calls:
    """How the requests of one load went."""

    def __init__(self, load: str, peace: Peace) -> None:
        self.load = load
        self.failures: Counter[str] = Counter()
        self.failures_in_peace: Counter[str] = Counter()
        self.examples_in_peace: list[str] = []
        # What no client can be blamed for: the broker met something that it did not foresee.
        self.internal_errors: list[str] = []
        self._answers: list[float] = [time.monotonic()]
        self._peace = peace
        self._lock = threading.Lock()

    @property
    def answered_count(self) -> int:
        return len(self._answers) - 1

    def answered(self) -> None:
        self._answers.append(time.monotonic())

    def failed(self, what: str, why: str, began: float, detail: str = "") -> None:
        with self._lock:
            self.failures[f"{what}: {why}"] += 1
            if self._peace.held_since(began):
                self.failures_in_peace[f"{what}: {why}"] += 1
                if len(self.examples_in_peace) < EXAMPLES_MAX:
                    took_s = time.monotonic() - began
                    now = f"{time.strftime('%H:%M:%S')}.{time.time_ns() // 10**6 % 1000:03d}"
                    self.examples_in_peace.append(f"{now} {what}: {why} ({took_s:.2f} s) {detail}")

    def met_internal_error(self, what: str, detail: str) -> None:
        with self._lock:
            self.internal_errors.append(f"{what}: {detail}")

    def longest_gap_s(self, since: float) -> float:
        """Between two answers, from then on until now."""
        answers = self._answers.copy()
        at = len(answers) - 1
        while at > 0 and answers[at] > since:
            at -= 1
        times = [*answers[at:], time.monotonic()]
        return max(after - before for before, after in pairwise(times))


class AnyBroker(Generic[Client]):
    """Clients of all brokers; each request goes to one that chance chooses."""

    def __init__(
        self,
        clients: Sequence[Client],
        failure_of: Callable[[Exception], tuple[str, str] | None],
        calls: Calls,
        chance: random.Random,
    ) -> None:
        """`failure_of` names a failure and its detail; None: the error is an answer."""
        self._clients = clients
        self._failure_of = failure_of
        self._calls = calls
        self._chance = chance

    def ask(self, what: str, send: Callable[[Client], T]) -> T:
        """Once, at one broker. `NotAnswered` if that failed; a refusal is raised as it is."""
        began = time.monotonic()
        try:
            answer = send(self._chance.choice(self._clients))
        except Exception as error:
            failure = self._failure_of(error)
            if failure is None:
                self._calls.answered()
                raise
            name, detail = failure
            self._calls.failed(what, name, began, detail)
            if name in INTERNAL:
                self._calls.met_internal_error(what, detail)
            raise NotAnswered(f"{what}: {name} {detail}") from error
        self._calls.answered()
        return answer

    def insist(self, what: str, send: Callable[[Client], T]) -> T:
        """Again, at one broker or another, until it is answered: for what may be repeated."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self.ask(what, send)
            except NotAnswered:
                if time.monotonic() > deadline:
                    raise
                time.sleep(self._chance.uniform(RETRY_S, 4 * RETRY_S))


# Codes of HTTP and SQS for what nobody foresaw.
INTERNAL: Final = ("internal", "InternalFailure")


def any_http(
    urls: Sequence[str], calls: Calls, chance: random.Random, answer_s: float = ANSWER_S
) -> AnyBroker[HttpApi]:
    apis = [HttpApi(url, timeout_s=answer_s) for url in urls]
    return AnyBroker(apis, _http_failure, calls, chance)


def _http_failure(error: Exception) -> tuple[str, str] | None:
    if isinstance(error, HttpUnreachable):
        return "unreachable", error.message
    if isinstance(error, HttpRefused) and error.status >= 500:
        return error.reason or str(error.status), error.message
    return None


def any_sqs(urls: Sequence[str], calls: Calls, chance: random.Random) -> AnyBroker[Any]:
    # Attempts are counted here, so boto3 makes one of each; a load has some threads.
    config = Config(
        retries={"total_max_attempts": 1},
        connect_timeout=CONNECT_S,
        read_timeout=ANSWER_S,
        max_pool_connections=20,
    )
    session = boto3.session.Session(
        aws_access_key_id="any", aws_secret_access_key="any", region_name=SQS_REGION
    )
    clients = [session.client("sqs", endpoint_url=url, config=config) for url in urls]
    return AnyBroker(clients, _sqs_failure, calls, chance)


SQS_REGION: Final = "eu-central-1"


def _sqs_failure(error: Exception) -> tuple[str, str] | None:
    if isinstance(error, BotoCoreError):
        return type(error).__name__, str(error)
    if isinstance(error, ClientError):
        response: dict[str, Any] = error.response
        if response["ResponseMetadata"]["HTTPStatusCode"] >= 500:
            return response["Error"]["Code"], response["Error"]["Message"]
    return None
