"""How brokers of a cluster reach each other: by TLS where they have it, as a user of their own.

Its password is made from the master key, which all of them have and nobody else.
"""

from dataclasses import replace

from goqueue.broker.security.master_key import MasterKey
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.client_security import SCRAM_SHA_256, ClientSecurity
from goqueue.model.security.users import BROKERS_USER


def brokers_password(master_key: MasterKey) -> str:
    return master_key.secret("brokers", "").hex()


def security_between_brokers(config: BrokerConfig, master_key: MasterKey | None) -> ClientSecurity:
    """`master_key` None: brokers need not log in.

    A broker shows its own certificate to others that ask for one.
    """
    has_tls = bool(config.tls_certificate_file)
    return ClientSecurity(
        tls=has_tls,
        ca_file=config.tls_ca_file,
        certificate_file=config.tls_certificate_file,
        key_file=config.tls_key_file if has_tls else "",
        mechanism="" if master_key is None else SCRAM_SHA_256,
        username="" if master_key is None else BROKERS_USER,
        password="" if master_key is None else brokers_password(master_key),
    )


def without_tls(security: ClientSecurity) -> ClientSecurity:
    """To a broker that has none yet."""
    return replace(security, tls=False, ca_file="", certificate_file="", key_file="")
