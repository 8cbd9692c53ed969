"""The commands that clients have sent, in the order in which they took effect."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

from ._rules import WAIT
from ._threads import in_thread
from ._words import Commands, Duration, fields, milliseconds, moment, pattern

if TYPE_CHECKING:
    from os import PathLike

    from ._endpoint import Endpoint


@dataclass(frozen=True)
class Entry:
    """A command with its reply. ``str(entry)`` is one line."""

    seq: int
    """Its number in the order in which commands took effect."""
    time: datetime
    """When it took effect, by the server's clock."""
    client: int
    """The CLIENT ID of its client."""
    name: str
    """The name of its client, or nothing."""
    db: int
    command: tuple[str, ...]
    """Its words. Bytes that are not UTF-8 are kept as ``surrogateescape`` does."""
    outcome: str
    """``answered``, ``lost``, ``never-ran``, ``silent``, ``queued`` or ``unknown``."""
    reply: str
    """Its reply on one line."""
    duration_us: int
    """Real time from its arrival to its reply, in microseconds."""
    fault: Optional[str]
    """The name of the fault that it met."""
    gates: tuple[str, ...]
    """The names of the gates that it came to."""
    children: tuple[tuple[str, ...], ...]
    """The commands that it ran, if it is EXEC or a script."""

    def __str__(self) -> str:
        client = f"{self.name} (client {self.client})" if self.name else f"client {self.client}"
        words = " ".join(_quoted(word) for word in self.command)
        outcome = "" if self.outcome == "answered" else f" [{self.outcome}]"
        fault = f" [fault {self.fault}]" if self.fault else ""
        ran = "".join(f"\n      {_cut(' '.join(map(_quoted, child)))}" for child in self.children)
        time = f"{self.time:%H:%M:%S.%f}"[:-3]
        return f"#{self.seq} {time} {client}: {_cut(words)} -> {_cut(self.reply)}{outcome}{fault}{ran}"


def _quoted(word: str) -> str:
    if word and word.isprintable() and not any(letter in " \"'" for letter in word):
        return word
    return '"' + word.encode("unicode_escape", "surrogateescape").decode("ascii", "replace").replace('"', '\\"') + '"'


def _cut(text: str, most: int = 400) -> str:
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


def _entry(reply: list[Any]) -> Entry:
    of = fields(reply)
    return Entry(
        seq=of["seq"],
        time=moment(of["time_us"]),
        client=of["client"],
        name=of["name"],
        db=of["db"],
        command=tuple(of["command"]),
        outcome=of["outcome"],
        reply=of["reply"] or "",
        duration_us=of["duration_us"] or 0,
        fault=of["fault"],
        gates=tuple(of["gates"] or ()),
        children=tuple(tuple(fields(child)["command"]) for child in of["children"] or ()),
    )


class Journal:
    """The journal of a server or a space. The conditions of its methods are those of :meth:`Endpoint.fault`, and

    - ``reply``: a glob for the reply as :class:`Entry` has it,
    - ``outcome``, ``fault``: as :class:`Entry` has them,
    - ``since``: only commands with a higher number,
    - ``children=True``: also commands that EXEC and scripts ran.
    """

    def __init__(self, endpoint: Endpoint):
        self._endpoint = endpoint

    def entries(
        self,
        on: Optional[Commands] = None,
        *,
        key: Optional[str] = None,
        client: Union[str, int, None] = None,
        db: Optional[int] = None,
        reply: Optional[str] = None,
        outcome: Optional[str] = None,
        fault: Optional[str] = None,
        since: Optional[int] = None,
        children: bool = False,
        limit: int = 1_000_000,
    ) -> list[Entry]:
        """The commands that match, in order: the last ones up to ``limit``, with ``since`` the first ones after it."""
        words = pattern(on, key, client, db, reply=reply, outcome=outcome, fault=fault, since=since, children=children)
        entries = map(_entry, self._endpoint.command("JOURNAL", "LIST", *words, "limit", limit))
        return [each for each in entries if each.outcome != "mark" or outcome == "mark"]  # a mark is no command

    def recent(self, count: int = 20) -> list[Entry]:
        """The last commands, without those by which client libraries introduce themselves."""
        found = [entry for entry in self.entries(limit=count + 100) if not _is_introduction(entry.command)]
        return found[-count:]

    def count(
        self,
        on: Optional[Commands] = None,
        *,
        key: Optional[str] = None,
        client: Union[str, int, None] = None,
        db: Optional[int] = None,
        reply: Optional[str] = None,
        outcome: Optional[str] = None,
        fault: Optional[str] = None,
        since: Optional[int] = None,
        children: bool = False,
    ) -> int:
        """How many commands match."""
        words = pattern(on, key, client, db, reply=reply, outcome=outcome, fault=fault, since=since, children=children)
        return int(self._endpoint.command("JOURNAL", "COUNT", *words))

    def wait_for(
        self,
        on: Optional[Commands] = None,
        count: int = 1,
        *,
        key: Optional[str] = None,
        client: Union[str, int, None] = None,
        db: Optional[int] = None,
        reply: Optional[str] = None,
        outcome: Optional[str] = None,
        fault: Optional[str] = None,
        since: Optional[int] = None,
        children: bool = False,
        timeout: Duration = WAIT,
    ) -> int:
        """Wait until so many commands match, those before included. Waits in real time, and raises
        :class:`~redouble.TimedOut` with the nearest commands."""
        words = pattern(on, key, client, db, reply=reply, outcome=outcome, fault=fault, since=since, children=children)
        __tracebackhide__ = True
        return int(self._endpoint.command("JOURNAL", "AWAIT", *words, count, milliseconds(timeout), timeout=None))

    async def wait_for_async(
        self, on: Optional[Commands] = None, count: int = 1, *, timeout: Duration = WAIT, **conditions: Any
    ) -> int:
        """The same without holding up the event loop."""
        return await in_thread(self.wait_for, on, count, timeout=timeout, **conditions)

    def last_seq(self) -> int:
        """The number of the last command: ``since=last_seq()`` matches what comes from now on."""
        return int(fields(self._endpoint.command("JOURNAL", "INFO"))["last_seq"] or 0)

    def forgotten(self) -> int:
        """How many commands were dropped for want of memory."""
        return int(fields(self._endpoint.command("JOURNAL", "INFO"))["forgotten"])

    def clear(self) -> None:
        """Delete all entries; their numbers go on."""
        self._endpoint.command("JOURNAL", "CLEAR")

    def on(self) -> None:
        """Record from now on."""
        self._endpoint.command("JOURNAL", "ON")

    def off(self) -> None:
        """Record nothing more; what is there stays."""
        self._endpoint.command("JOURNAL", "OFF")

    def export(self, path: Union[str, PathLike[str]]) -> Path:
        """Write all entries to a file, one JSON object a line, for ``redouble audit`` and ``redouble report``."""
        return self._endpoint.export(Path(path))


# What client libraries send by themselves when they connect.
_INTRODUCTIONS = (
    ("HELLO",),
    ("AUTH",),
    ("CLIENT", "SETINFO"),
    ("CLIENT", "SETNAME"),
    ("CLIENT", "MAINT_NOTIFICATIONS"),
)


def _is_introduction(command: tuple[str, ...]) -> bool:
    upper = tuple(word.upper() for word in command[:2])
    return any(upper[: len(words)] == words for words in _INTRODUCTIONS)
