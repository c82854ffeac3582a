"""The schema registry's front door: Confluent's REST API on the HTTP port.

At the root, where Confluent's clients look for it, and the same under `/schemas`. Owns no state;
what is registered is asked of the broker. Runs on the broker's event loop: requests are recognised
by the first part of their path and answered without a web framework, in Confluent's forms.
"""

from goqueue.doors.registry.door import RegistryDoor

__all__ = ["RegistryDoor"]
