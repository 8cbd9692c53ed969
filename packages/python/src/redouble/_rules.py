"""Faults and gates: rules about the commands of clients."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional, Union

from ._errors import CommandError, FaultNotFired, GateNotReached
from ._threads import in_thread
from ._words import Duration, fields, milliseconds

if TYPE_CHECKING:
    from ._endpoint import Endpoint

# Real time for which a wait goes on, in seconds.
WAIT = 10.0


class _Rule:
    """A rule with a name, which is removed at the end of a ``with`` block."""

    def __init__(self, endpoint: Endpoint, power: str, name: str, words: list[str]):
        self._endpoint = endpoint
        self._power = power
        self.name = name
        """Its name in the answers of the server."""
        self._removed = False
        endpoint.command(power, "ADD", name, *words)

    def _state(self) -> dict[str, Any]:
        for reply in self._endpoint.command(self._power, "LIST"):
            state = fields(reply)
            if state["name"] == self.name:
                return state
        raise CommandError(f"ERR there is no {self._power.lower()} '{self.name}' any more")

    def _remove(self) -> Any:
        if self._removed:
            return None
        self._removed = True
        return self._endpoint.command(self._power, "REMOVE", self.name)

    def _recent(self) -> str:
        """What clients sent last, for an error."""
        try:
            entries = self._endpoint.journal.recent(5)
        except CommandError:
            return "and without the journal nothing is known of what came"
        if not entries:
            return "no command came"
        return "the last commands were:\n" + "\n".join(f"  {entry}" for entry in entries)


class Fault(_Rule):
    """A fault, from its beginning until :meth:`remove` or the end of the ``with`` block.

    If it never fired, leaving the block raises :class:`~redouble.FaultNotFired`, unless the block raised or
    ``must_fire=False`` was given.
    """

    def __init__(self, endpoint: Endpoint, name: str, words: list[str], must_fire: bool):
        super().__init__(endpoint, "FAULT", name, words)
        self.must_fire = must_fire
        self._rule = " ".join(words)
        self._fired: Optional[int] = None

    @property
    def fired(self) -> int:
        """How often it has fired."""
        return int(self._state()["fired"]) if self._fired is None else self._fired

    @property
    def matched(self) -> int:
        """How many commands it matched so far."""
        return int(self._state()["matched"])

    @property
    def hanging(self) -> int:
        """How many clients wait for it now."""
        return int(self._state()["hanging"])

    def remove(self) -> int:
        """Remove it, and return how often it has fired. Clients that hang go on."""
        if self._fired is None:
            self._fired = int(self._remove() or 0)
        return self._fired

    def __enter__(self) -> Fault:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        __tracebackhide__ = True
        try:
            fired = self.remove()
        except CommandError:
            if kind is not None:
                return
            raise
        if fired == 0 and kind is None and self.must_fire:
            raise FaultNotFired(f"the fault '{self._rule}' never fired; {self._recent()}")


class Gate(_Rule):
    """A gate, which holds commands until :meth:`step`, :meth:`open`, :meth:`remove` or the end of the ``with`` block.

    If no command ever came to it, leaving the block raises :class:`~redouble.GateNotReached`, unless the block raised or
    ``must_be_reached=False`` was given.
    """

    def __init__(self, endpoint: Endpoint, name: str, words: list[str], must_be_reached: bool):
        super().__init__(endpoint, "GATE", name, words)
        self.must_be_reached = must_be_reached
        self._rule = " ".join(words)

    def wait_for(self, count: int = 1, timeout: Duration = WAIT) -> int:
        """Wait until so many commands are held, and return how many are. Waits in real time, whatever the clock does."""
        __tracebackhide__ = True
        return int(self._endpoint.command("GATE", "WAIT", self.name, count, milliseconds(timeout), timeout=None))

    async def wait_for_async(self, count: int = 1, timeout: Duration = WAIT) -> int:
        """The same without holding up the event loop."""
        return await in_thread(self.wait_for, count, timeout)

    def step(self) -> None:
        """Let the command go on that came first, and return when it has run and its reply is sent."""
        self._endpoint.command("GATE", "STEP", self.name)

    def open(self) -> int:
        """Let all commands go on, in the order of their arrival, and hold none from then on. Returns how many went on."""
        return int(self._endpoint.command("GATE", "OPEN", self.name))

    @property
    def held(self) -> list[str]:
        """The commands that are held, with their clients."""
        return list(self._state()["held"])

    @property
    def arrived(self) -> int:
        """How many commands have come to it so far."""
        return int(self._state()["arrived"])

    def remove(self) -> None:
        """Let all commands go on, and remove the gate."""
        self._remove()

    def __enter__(self) -> Gate:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        __tracebackhide__ = True
        if self._removed:
            return
        try:
            arrived = self.arrived
            self.remove()
        except CommandError:
            if kind is not None:
                return
            raise
        if arrived == 0 and kind is None and self.must_be_reached:
            raise GateNotReached(f"no command came to the gate '{self._rule}'; {self._recent()}")


def verdict(words: tuple[Union[str, Duration], ...]) -> list[str]:
    """The words of a verdict: ``("close-after",)``, ``("delay", 2)``, ``("error", "OOM no memory")``, ``("delay 2s",)``."""
    if not words:
        raise TypeError("a fault needs a verdict: fault('close-after', on='SET')")
    first, *rest = words
    if not isinstance(first, str):
        raise TypeError(f"a verdict is a word as 'close-after', not {first!r}")
    name, _, text = first.partition(" ")
    # Only the text of an error has spaces in it.
    in_text = [text] if name == "error" else text.split()
    counts = name in ("truncate", "drip")
    said = [*(part for part in in_text if part)]
    for place, word in enumerate(rest):
        is_count = counts and place == 0 and isinstance(word, int)
        said.append(str(word) if isinstance(word, str) or is_count else milliseconds(word))
    if name == "drip" and len(said) == 2:
        said.insert(1, "every")
    return [name, *said]
