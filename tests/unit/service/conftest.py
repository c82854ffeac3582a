from tests.unit.broker.conftest import open_broker

__all__ = ["open_broker"]
