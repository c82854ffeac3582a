"""What a broker with log-ins and TLS needs, and what its clients need to know, for tests."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from goqueue.model.client_security import ClientSecurity
from goqueue.server.tls.making import MadeCertificates, make_certificates
from goqueue.testing.secured_clients import ADMIN, ADMIN_PASSWORD, MECHANISM

_HOSTS: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Secured:
    """Files in a folder of the test: certificates, a master key, and the first administrator."""

    certificates: MadeCertificates
    users_file: Path
    master_key_file: Path

    @classmethod
    def make(cls, folder: Path) -> "Secured":
        from goqueue.broker.security.master_key import FILE_NAME, make_master_key

        made = make_certificates(folder, _HOSTS)
        users_file = folder / "first-users.toml"
        users_file.touch(mode=0o600)
        users_file.write_text(
            f'[[users]]\nname = "{ADMIN}"\npassword = "{ADMIN_PASSWORD}"\nadmin = true\n'
        )
        make_master_key(folder / FILE_NAME)
        return cls(made, users_file, folder / FILE_NAME)

    def settings(self) -> dict[str, str]:
        return {
            "security.enabled": "true",
            "security.bootstrap.file": str(self.users_file),
            "security.master.key.file": str(self.master_key_file),
            "tls.certificate.file": str(self.certificates.broker),
            "tls.key.file": str(self.certificates.broker_key),
            "tls.ca.file": str(self.certificates.ca),
        }

    @property
    def ca_file(self) -> str:
        return str(self.certificates.ca)

    def client_security(self, username: str, password: str) -> ClientSecurity:
        return ClientSecurity(
            tls=True,
            ca_file=self.ca_file,
            mechanism=MECHANISM,
            username=username,
            password=password,
        )
