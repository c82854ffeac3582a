"""Apache Kafka with a second listener, by TLS."""

from collections.abc import Sequence
from pathlib import Path

from bench.brokers.guarded import set_options
from bench.brokers.kafka import Kafka
from bench.brokers.kafka_speaker import Fsync, create_topic, delete_topic
from bench.child_process import ChildProcess, free_port
from goqueue.server.tls.making import make_certificates


class GuardedKafka(Kafka):
    def __init__(self, certificates: Path) -> None:
        super().__init__()
        self._made = make_certificates(certificates, ["127.0.0.1"])
        self.tls_port = free_port()

    def properties(self, folder: Path) -> str:
        store = folder / "keystore.pem"
        store.write_text(self._made.broker_key.read_text() + self._made.broker.read_text())
        plain = super().properties(folder)
        listeners = ("listeners=PLAINTEXT", "advertised.listeners=PLAINTEXT")
        for listener in listeners:
            with_tls = listener.replace("=", f"=SSL://127.0.0.1:{self.tls_port},")
            plain = plain.replace(f"\n{listener}", f"\n{with_tls}")
        plain = plain.replace("PLAINTEXT:PLAINTEXT", "PLAINTEXT:PLAINTEXT,SSL:SSL")
        return f"{plain}ssl.keystore.type=PEM\nssl.keystore.location={store}\n"

    def ports(self) -> tuple["KafkaPort", "KafkaPort"]:
        ca = {"security.protocol": "ssl", "ssl.ca.location": str(self._made.ca)}
        tls = KafkaPort("Kafka by TLS", self, self.tls_port, set_options(ca))
        return KafkaPort("Kafka", self, self.port, ()), tls


class KafkaPort:
    """One way to the same broker."""

    def __init__(self, name: str, kafka: Kafka, port: int, client_options: Sequence[str]) -> None:
        self.name = name
        self.port = port
        self.client_options = client_options
        self._kafka = kafka

    @property
    def process(self) -> ChildProcess:
        return self._kafka.process

    def make_topic(self, name: str) -> None:
        create_topic(self._kafka, name, 1, Fsync.INTERVAL)

    def delete_topic(self, name: str) -> None:
        delete_topic(self._kafka, name)
