"""MinIO, a server with S3's API, as a process; built once by Go into the cache."""

import os
import secrets
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from tests.busy_machine import stretched

HOST = "127.0.0.1"
CACHE = Path(__file__).resolve().parent.parent.parent / ".cache" / "minio"
MODULE = "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c"
BUILD_SECONDS = 1800
START_SECONDS = 60


def minio_program() -> Path:
    found = shutil.which("minio", path=f"{os.environ['PATH']}{os.pathsep}{CACHE}")
    if found is None:
        go = shutil.which("go")
        assert go is not None, "install MinIO, or Go to build it with"
        CACHE.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [go, "install", MODULE],
            env=os.environ | {"GOBIN": str(CACHE)},
            check=True,
            timeout=BUILD_SECONDS,
        )
    return Path(found or CACHE / "minio")


class MinioServer:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.access_key, self.secret_key = "tester", secrets.token_hex(16)
        with socket.create_server((HOST, 0)) as free:
            self.endpoint = f"http://{HOST}:{free.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True)
        keys = {"MINIO_ROOT_USER": self.access_key, "MINIO_ROOT_PASSWORD": self.secret_key}
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    minio_program(), "server", "--quiet", str(self._folder / "data"),
                    "--address", self.endpoint.removeprefix("http://"),
                    "--console-address", f"{HOST}:0",
                ],
                env=os.environ | keys,
                stdout=log,
                stderr=log,
            )  # fmt: skip
        deadline = time.monotonic() + stretched(START_SECONDS)
        while True:
            try:
                self.client.list_buckets()
            except (BotoCoreError, ClientError):
                assert self._process.poll() is None, (self._folder / "log").read_text()
                assert time.monotonic() < deadline, "MinIO did not start"
                time.sleep(0.2)
            else:
                return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait(30)

    @property
    def client(self) -> Any:
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            region_name="us-east-1",
            config=Config(retries={"max_attempts": 0}, connect_timeout=2),
        )

    @property
    def variables(self) -> dict[str, str]:
        """As AWS' own tools and delta-rs read them."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_ENDPOINT_URL": self.endpoint,
        }

    @property
    def spark_settings(self) -> dict[str, str]:
        """As Hadoop reads them."""
        return {
            "spark.hadoop.fs.s3a.access.key": self.access_key,
            "spark.hadoop.fs.s3a.secret.key": self.secret_key,
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
        }
