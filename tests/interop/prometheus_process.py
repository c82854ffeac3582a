"""A real Prometheus that scrapes a broker once a second with the configuration we ship."""

import contextlib
import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import URLError
from urllib.parse import quote, urlsplit
from urllib.request import urlopen

import yaml

from goqueue.testing.ports import free_port

DEPLOY = Path(__file__).parents[2] / "deploy"
CONFIG = DEPLOY / "prometheus" / "prometheus.yml"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
READY_SECONDS = 120.0

T = TypeVar("T")


class Prometheus:
    def __init__(self, url: str, brokers: int) -> None:
        self._url = url
        self._brokers = brokers

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples of an instant query."""
        data = self._get(f"/api/v1/query?query={quote(expression)}")
        assert data["resultType"] == "vector", expression
        found: list[dict[str, Any]] = data["result"]
        return found

    def metric_names(self) -> set[str]:
        return set(self._get("/api/v1/label/__name__/values"))

    def rules(self) -> list[dict[str, Any]]:
        return [rule for group in self._get("/api/v1/rules")["groups"] for rule in group["rules"]]

    def firing(self) -> set[str]:
        alerts = self._get("/api/v1/alerts")["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def wait_scrapes(self, count: int) -> None:
        """Return after this many more scrapes of every broker."""
        begin = time.time()

        def scraped() -> bool:
            found = self.query(f"count_over_time(goqueue_build_info[{_seconds_since(begin)}s])")
            # The oldest of them may have begun before.
            scrapes = [int(each["value"][1]) for each in found]
            return len(scrapes) == self._brokers and min(scrapes) > count

        try:
            wait_for(scraped)
        except AssertionError:
            targets = self._get("/api/v1/targets")["activeTargets"]
            raise AssertionError(
                [(each["health"], each["lastError"]) for each in targets]
            ) from None

    def _get(self, path: str) -> Any:
        with urlopen(self._url + path, timeout=60) as answer:
            body = json.load(answer)
        assert body["status"] == "success", body
        return body["data"]


@contextlib.contextmanager
def running_prometheus(broker_urls: Sequence[str], folder: Path) -> Iterator[Prometheus]:
    config = yaml.safe_load(CONFIG.read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(ALERTS)]
    targets = [urlsplit(url).netloc for url in broker_urls]
    config["scrape_configs"][0]["static_configs"] = [{"targets": targets}]
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_port()}"
    command = ["prometheus", f"--config.file={path}", f"--storage.tsdb.path={folder / 'data'}"]
    command += [f"--web.listen-address={address}", "--log.level=warn"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        url = f"http://{address}"
        wait_for(lambda: _is_ready(url, process))
        yield Prometheus(url, len(broker_urls))
    finally:
        process.kill()
        process.wait()


def wait_for(condition: Callable[[], T | None], seconds: float = READY_SECONDS) -> T:
    """The first true value of `condition`."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.1)
    return found


def _is_ready(url: str, process: "subprocess.Popen[bytes]") -> bool:
    assert process.poll() is None, "Prometheus ended"
    try:
        with urlopen(url + "/-/ready", timeout=5):
            return True
    except (URLError, OSError):
        return False


def _seconds_since(begin: float) -> int:
    return max(1, int(time.time() - begin))
