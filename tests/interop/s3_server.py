"""moto, which has S3's API, in a process of its own: what a store answers, and what it refuses."""

import json
import subprocess
import sys
import time
from types import TracebackType
from typing import Any, Self
from urllib.request import Request, urlopen

import boto3
from botocore.config import Config

from goqueue.testing.ports import free_port
from tests.busy_machine import stretched

HOST = "127.0.0.1"
START_SECONDS = 60.0


class S3Server:
    """Keys are any: moto does not look at them, but at the policies of buckets."""

    def __init__(self) -> None:
        self.endpoint = f"http://{HOST}:{free_port()}"

    def __enter__(self) -> Self:
        port = self.endpoint.rpartition(":")[2]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", HOST, "-p", port],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + stretched(START_SECONDS)
        while True:
            try:
                with urlopen(f"{self.endpoint}/moto-api/", timeout=5):
                    return self
            except OSError:
                assert self._process.poll() is None, "moto did not start"
                assert time.monotonic() < deadline, "moto did not start in time"
                time.sleep(0.05)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def clear(self) -> None:
        """Without anything, as at the start."""
        with urlopen(Request(f"{self.endpoint}/moto-api/reset", method="POST"), timeout=30):
            pass

    @property
    def client(self) -> Any:
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id="tester",
            aws_secret_access_key="secret",
            region_name="us-east-1",
            config=Config(retries={"max_attempts": 0}),
        )

    @property
    def variables(self) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": "tester",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_ENDPOINT_URL": self.endpoint,
        }

    def forbid(self, bucket: str, *actions: str) -> None:
        """To everybody, until `allow`."""
        statement = {
            "Effect": "Deny",
            "Principal": "*",
            "Action": list(actions),
            "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"],
        }
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        self.client.put_bucket_policy(Bucket=bucket, Policy=policy)

    def allow(self, bucket: str) -> None:
        self.client.delete_bucket_policy(Bucket=bucket)
