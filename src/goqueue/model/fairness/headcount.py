"""How many of something each party has, and who has most."""

from collections.abc import Iterator


class Headcount:
    """No step goes through the parties, of which there may be thousands: a flood asks with each
    connection."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        # Parties by their counts; of those that have as many, the first has had them for longest.
        self._levels: dict[int, dict[str, None]] = {}
        self._most = 0
        self.total = 0

    def __len__(self) -> int:
        """How many parties have any."""
        return len(self._counts)

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts)

    def __getitem__(self, party: str) -> int:
        return self._counts.get(party, 0)

    def add(self, party: str, count: int = 1) -> None:
        before = self._counts.get(party, 0)
        now = before + count
        assert now >= 0, (party, before, count)
        if not count:
            return
        self.total += count
        self._leave(party, before)
        if now:
            self._counts[party] = now
            self._levels.setdefault(now, {})[party] = None
            self._most = max(self._most, now)
        else:
            del self._counts[party]
        if self._most not in self._levels:
            # There are few levels: n of them take n * n / 2 things.
            self._most = max(self._levels, default=0)

    def remove(self, party: str, count: int = 1) -> None:
        self.add(party, -count)

    def _leave(self, party: str, level: int) -> None:
        if level:
            of_level = self._levels[level]
            del of_level[party]
            if not of_level:
                del self._levels[level]

    def gives_way(self, newcomer: str, count: int = 1) -> str:
        """Who loses something where there is no room and `newcomer` wants `count` more: the party
        that has most, which is `newcomer` itself if nobody has as many as it would have then."""
        if self[newcomer] + count > self._most:
            return newcomer
        return next(iter(self._levels[self._most]))

    def beyond(self, share: int) -> int:
        """What parties have that is more than `share` of each."""
        return sum(
            (level - share) * len(parties)
            for level, parties in self._levels.items()
            if level > share
        )
