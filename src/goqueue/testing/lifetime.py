"""What is started by a `with` statement, and ended with it."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Lifetime(ABC):
    @abstractmethod
    def start(self) -> Self: ...

    @abstractmethod
    def close(self) -> None:
        """Also of what was started in part."""

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
