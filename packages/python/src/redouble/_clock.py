"""The clock of a server or a space."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Optional

from ._words import Duration, Instant, fields, instant, milliseconds, moment

if TYPE_CHECKING:
    from ._endpoint import Endpoint


@dataclass(frozen=True)
class ClockInfo:
    """How a clock goes."""

    mode: str
    """``running``, ``frozen`` or ``auto``."""
    speed: float
    """How many times as fast as real time it runs; 0 while it stands."""
    now: datetime
    offset_ms: int
    """How many milliseconds it is ahead of the machine's."""
    next_deadline: Optional[datetime]
    """When the wait of a client ends, if one waits."""


class Frozen:
    """What :meth:`Clock.freeze` returns: as a context manager, it lets the clock run again at the end of the block.

    A clock that stood before goes on standing.
    """

    def __init__(self, clock: Clock, stood: bool):
        self._clock = clock
        self._stood = stood

    def __enter__(self) -> Clock:
        return self._clock

    def __exit__(self, *exception: object) -> None:
        if not self._stood:
            self._clock.resume()


class Clock:
    """The server's clock. Expiry, blocking commands, delays and ``TIME`` follow it.

    A call that moves the clock returns after all consequences: expired keys are gone, and whoever waited for that time
    has the reply.
    """

    def __init__(self, endpoint: Endpoint):
        self._endpoint = endpoint

    def freeze(self, at: Optional[Instant] = None) -> Frozen:
        """Stop the clock, now or at a moment. ``with clock.freeze():`` lets it run again afterwards."""
        stood = self.info().mode == "frozen"
        self._endpoint.command("CLOCK", "FREEZE", *([] if at is None else [instant(at)]))
        return Frozen(self, stood)

    def advance(self, duration: Duration) -> None:
        """Move the clock forward: ``advance("30s")``, ``advance(30)``, ``advance(timedelta(seconds=30))``.

        A key can be read in the millisecond of its deadline, and is gone in the next.
        """
        self._endpoint.command("CLOCK", "ADVANCE", milliseconds(duration))

    def set(self, at: Instant) -> None:
        """Move the clock to a moment, forwards or backwards."""
        self._endpoint.command("CLOCK", "SET", instant(at))

    def speed(self, factor: float) -> None:
        """Let the clock run so many times as fast as real time (0.001 to 1,000,000)."""
        self._endpoint.command("CLOCK", "SPEED", factor)

    def auto(self, idle: Optional[Duration] = None) -> None:
        """Stop the clock, and move it to the next deadline whenever every client waits.

        Clients that have sent nothing for ``idle`` of real time are not waited for.
        """
        self._endpoint.command("CLOCK", "AUTO", *([] if idle is None else ["idle", milliseconds(idle)]))

    def resume(self) -> None:
        """Let the clock run as fast as real time, on from where it is."""
        self._endpoint.command("CLOCK", "RESUME")

    def now(self) -> float:
        """The server's time in seconds since 1970, as ``time.time()`` gives the machine's."""
        return int(self._endpoint.command("CLOCK", "NOW")) / 1000

    def info(self) -> ClockInfo:
        """How the clock goes."""
        info = fields(self._endpoint.command("CLOCK", "INFO"))
        deadline = info["next_deadline"]
        return ClockInfo(
            mode=info["mode"],
            speed=float(info["speed"]),
            now=moment(int(info["now"]) * 1000),
            offset_ms=int(info["offset"]),
            next_deadline=None if deadline is None else moment(int(deadline) * 1000),
        )
