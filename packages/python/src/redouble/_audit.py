"""The lock auditor: who misuses which lock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Optional

from ._errors import LockMisuse
from ._rules import WAIT
from ._threads import in_thread
from ._words import Duration, fields, milliseconds, moment, pattern

if TYPE_CHECKING:
    from ._endpoint import Endpoint


@dataclass(frozen=True)
class Evidence:
    """A command that proves a finding."""

    seq: int
    client: int
    name: str
    time: datetime
    command: str
    what: str
    """What it shows."""
    server: int = 1

    def __str__(self) -> str:
        client = f"{self.name} (client {self.client})" if self.name else f"client {self.client}"
        time = f"{self.time:%H:%M:%S.%f}"[:-3]
        return f"#{self.seq} {time} {client} {self.what}: {self.command}"


@dataclass(frozen=True)
class Finding:
    """A misuse of a lock, with the commands that prove it. ``str(finding)`` tells all of it."""

    code: str
    """Its kind, for example ``two-holders``. Codes never change."""
    severity: str
    """``error``, ``warning`` or ``note``."""
    key: str
    sentence: str
    """What is wrong."""
    instead: str
    """What to do instead."""
    docs: str
    """The section of the documentation that explains it."""
    times: int
    """How often this client did this with this lock."""
    seq: int
    """The journal's number of the command that made it a finding."""
    last_seq: int
    """The same for the last time."""
    time: datetime
    culprit: int
    """The CLIENT ID of the client whose mistake it is; 0 if it is no client's."""
    allowed: Optional[str]
    """The reason for which it is allowed, or None."""
    evidence: tuple[Evidence, ...]
    db: int = 0
    server: int = 1
    mark: Optional[str] = None
    """The mark that it came after, such as the name of a test."""

    def __str__(self) -> str:
        lines = [f"{self.severity} {self.code}: {self.sentence}"]
        lines += [f"  {each}" for each in self.evidence]
        lines += [f"  instead: {self.instead}", f"  more: {self.docs}"]
        return "\n".join(lines)


@dataclass(frozen=True)
class Lock:
    """A lock that clients hold or wait for."""

    key: str
    state: str
    """``held``, ``held-by-several``, ``lost``, ``taken`` or ``free``."""
    value: Optional[str]
    deadline: Optional[datetime]
    """When the server deletes it; None if never."""
    holders: tuple[dict[str, Any], ...]
    """The clients that believe to hold it: ``client``, ``name``, ``token``, ``since_us``, ``standing``, ..."""
    waiters: tuple[dict[str, Any], ...]
    """The clients that were refused: ``client``, ``name``, ``attempts``, ..."""
    fields: dict[str, Any]
    """All fields of ``REDOUBLE LOCKS``, by their names there with ``_`` for ``-``."""


def _finding(reply: list[Any]) -> Finding:
    of = fields(reply)
    evidence = tuple(
        Evidence(
            seq=each["seq"],
            client=each["client"],
            name=each["name"],
            time=moment(each["time_us"]),
            command=each["command"],
            what=each["what"],
            server=each["server"],
        )
        for each in map(fields, of["evidence"])
    )
    return Finding(
        code=of["code"],
        severity=of["severity"],
        key=of["key"],
        sentence=of["sentence"],
        instead=of["instead"],
        docs=of["docs"],
        times=of["times"],
        seq=of["seq"],
        last_seq=of["last_seq"],
        time=moment(of["time_us"]),
        culprit=of["culprit"],
        allowed=of["allowed"],
        evidence=evidence,
        db=of["db"],
        server=of["server"],
        mark=of.get("mark"),
    )


class Audit:
    """The auditor of a server or a space. It is on unless the server was started with ``audit=False``."""

    def __init__(self, endpoint: Endpoint):
        self._endpoint = endpoint

    def findings(
        self,
        *,
        key: Optional[str] = None,
        code: Optional[str] = None,
        severity: Optional[str] = None,
        since: Optional[int] = None,
        final: bool = False,
        allowed: bool = False,
    ) -> list[Finding]:
        """The findings so far, in order.

        ``key`` is a glob; ``severity`` stands for this one and worse ones; ``since`` is a number of the journal; ``final``
        asks as if no more commands came, so that locks which were never released are found; ``allowed`` adds those that
        are allowed.
        """
        words = pattern(key=key, code=code, severity=severity, since=since, allowed=allowed, final=final)
        return [_finding(each) for each in self._endpoint.command("AUDIT", "LIST", *words, "limit", 10_000)]

    def count(
        self,
        *,
        key: Optional[str] = None,
        code: Optional[str] = None,
        severity: Optional[str] = None,
        since: Optional[int] = None,
        final: bool = False,
    ) -> int:
        """How many findings there are."""
        words = pattern(key=key, code=code, severity=severity, since=since, final=final)
        return int(self._endpoint.command("AUDIT", "COUNT", *words))

    def wait_for(
        self,
        code: Optional[str] = None,
        count: int = 1,
        *,
        key: Optional[str] = None,
        severity: Optional[str] = None,
        since: Optional[int] = None,
        timeout: Duration = WAIT,
    ) -> int:
        """Wait until there are so many findings. Waits in real time."""
        words = pattern(key=key, code=code, severity=severity, since=since)
        __tracebackhide__ = True
        return int(self._endpoint.command("AUDIT", "AWAIT", *words, count, milliseconds(timeout), timeout=None))

    async def wait_for_async(
        self, code: Optional[str] = None, count: int = 1, *, timeout: Duration = WAIT, **conditions: Any
    ) -> int:
        """The same without holding up the event loop."""
        return await in_thread(self.wait_for, code, count, timeout=timeout, **conditions)

    def expect_clean(self, *, severity: str = "warning") -> None:
        """Raise :class:`~redouble.LockMisuse` if locks were misused so far, or are still held."""
        __tracebackhide__ = True
        findings = self.findings(severity=severity, final=True)
        if findings:
            raise LockMisuse(told(findings), findings)

    def allow(self, code: str, key: str, reason: str) -> None:
        """Allow findings of this code (``*``: of any) about keys that match the glob, and say why."""
        self._endpoint.command("AUDIT", "ALLOW", code, key, *reason.split())

    def locks(self, key: Optional[str] = None) -> list[Lock]:
        """The locks that clients hold or wait for; ``key`` is a glob."""
        locks = []
        for reply in self._endpoint.command("LOCKS", *([] if key is None else ["key", key])):
            of = fields(reply)
            of["holders"] = [fields(each) for each in of["holders"] or ()]
            of["waiters"] = [fields(each) for each in of["waiters"] or ()]
            deadline = of["deadline_ms"]
            locks.append(
                Lock(
                    key=of["key"],
                    state=of["state"],
                    value=of["value"],
                    deadline=None if deadline is None else moment(deadline * 1000),
                    holders=tuple(of["holders"]),
                    waiters=tuple(of["waiters"]),
                    fields=of,
                )
            )
        return locks

    def clear(self) -> None:
        """Delete the findings; who holds which lock stays known."""
        self._endpoint.command("AUDIT", "CLEAR")

    def on(self) -> None:
        """Read every command from now on, and what the journal has."""
        self._endpoint.command("AUDIT", "ON")

    def off(self) -> None:
        """Read nothing more; findings stay."""
        self._endpoint.command("AUDIT", "OFF")


def told(findings: list[Finding]) -> str:
    """Findings as the text of an error."""
    count = f"{len(findings)} mistake{'s' if len(findings) > 1 else ''} with locks"
    return "\n\n".join([count, *(f"{number}. {finding}" for number, finding in enumerate(findings, 1))])
