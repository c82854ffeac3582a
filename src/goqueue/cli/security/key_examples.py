"""Lines to paste that use a new key."""

from typing import Final

# SQS clients want one; any will do, for the signature names it and the broker takes it from there.
_REGION: Final = "us-east-1"


def sqs_example(key_id: str, secret: str, url: str, ca_file: str) -> str:
    verify = f"\n    verify={ca_file!r}," if ca_file else ""
    bundle = f"export AWS_CA_BUNDLE={ca_file}\n" if ca_file else ""
    return f"""
export AWS_ACCESS_KEY_ID={key_id}
export AWS_SECRET_ACCESS_KEY={secret}
export AWS_DEFAULT_REGION={_REGION}
export AWS_ENDPOINT_URL_SQS={url}
{bundle}
import boto3
sqs = boto3.client(
    "sqs",
    endpoint_url={url!r},
    region_name={_REGION!r},
    aws_access_key_id={key_id!r},
    aws_secret_access_key={secret!r},{verify}
)
print(sqs.list_queues().get("QueueUrls", []))"""


def api_example(token: str, url: str, ca_file: str) -> str:
    ca = f" --cacert {ca_file}" if ca_file else ""
    return f"""
export GOQUEUE_API_KEY={token}
curl{ca} -H "Authorization: Bearer $GOQUEUE_API_KEY" {url}/whoami"""
