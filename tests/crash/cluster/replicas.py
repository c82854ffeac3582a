"""Whether the replicas of a partition are the same: their files are compared, byte by byte."""

from pathlib import Path

from tests.crash.cluster.history import Place


def differing(folders: list[Path], places: list[Place]) -> list[str]:
    """Each replica is a run of segments; where one of them begins is each broker's own matter."""
    found = []
    for place in places:
        logs = [_bytes(folder, place) for folder in folders]
        for folder, log in zip(folders[1:], logs[1:], strict=True):
            if log != logs[0]:
                at = next(
                    (i for i, (a, b) in enumerate(zip(log, logs[0], strict=False)) if a != b),
                    min(len(log), len(logs[0])),
                )
                found.append(
                    f"{place}: {folder.name} differs from {folders[0].name} from byte {at} on "
                    f"({len(log)} and {len(logs[0])} bytes)"
                )
    return found


def _bytes(folder: Path, place: Place) -> bytes:
    topic, partition = place
    segments = sorted((folder / "logs" / f"{topic}-{partition}").glob("*.log"))
    return b"".join(segment.read_bytes() for segment in segments)
