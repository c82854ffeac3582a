"""SCRAM mechanisms by the numbers that requests have for them (KIP-554)."""

from collections.abc import Mapping
from typing import Final

NAMES: Final[Mapping[int, str]] = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
NUMBERS: Final[Mapping[str, int]] = {name: number for number, name in NAMES.items()}
