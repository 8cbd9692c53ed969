"""What a server, one of its instances, and a space have in common: an address, clients, and the powers."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import os
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Sequence, Union
from urllib.parse import quote

from ._audit import Audit
from ._clock import Clock
from ._errors import ClientLibraryMissing, CommandError, RedoubleError
from ._journal import Journal
from ._resp import Connection, Word
from ._rules import Fault, Gate, verdict
from ._words import Commands, Duration, fields, milliseconds, pattern

if TYPE_CHECKING:
    from os import PathLike

    import redis
    import redis.asyncio

    from ._server import Server

# Faults and gates without a name of their own.
_numbers = itertools.count(1)

_exporting = threading.Lock()


class Endpoint:
    """Something with a URL that clients connect to, and whose clock, faults, gates, journal and auditor a test controls.

    All calls may come from any thread. They talk to the server over connections of their own, which stand in no
    ``CLIENT LIST`` of a space, meet no fault and pass no gate. They return within a millisecond or so, so they may be
    called in coroutines; those that wait for somebody else (``wait_for``) have a variant ``wait_for_async``.
    """

    def __init__(self, server: Server, index: int, space: str):
        self._server = server
        self._index = index
        self._space = space
        self._closed = False
        self._clients: list[Any] = []
        self._async_clients: list[tuple[Any, Optional[asyncio.AbstractEventLoop]]] = []
        self._faults: dict[str, Fault] = {}
        self.clock = Clock(self)
        """Stops and moves the time."""
        self.journal = Journal(self)
        """The commands that came."""
        self.audit = Audit(self)
        """Who misused which lock."""

    # Its address

    @property
    def host(self) -> str:
        return self._server._hosts[0]

    @property
    def port(self) -> int:
        return self._server._port(self._index)

    @property
    def username(self) -> Optional[str]:
        """The user name that leads here; None if none is needed."""
        if self._space:
            return f"space.{self._space}"
        return "default" if self._server.password is not None else None

    @property
    def password(self) -> Optional[str]:
        if self._server.password is not None:
            return self._server.password
        return "any" if self._space else None

    @property
    def url(self) -> str:
        """For ``Redis.from_url``, or the setting of a program. ``url + "/1"`` is database 1."""
        user = ""
        if self.username is not None:
            user = f"{quote(self.username, safe='')}:{quote(self.password or '', safe='')}@"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"redis://{user}{host}:{self.port}"

    @property
    def env(self) -> dict[str, str]:
        """``REDIS_URL``, ``REDIS_HOST`` and ``REDIS_PORT``, as ``redouble run`` gives them to its command."""
        return {"REDIS_URL": self.url, "REDIS_HOST": self.host, "REDIS_PORT": str(self.port)}

    def __repr__(self) -> str:
        return f"<redouble.{type(self).__name__} {self.url}>" if self._server.running else super().__repr__()

    # Clients

    def client(self, **options: Any) -> redis.Redis:
        """Return a new client of redis-py, or of valkey-py if only that is installed. It is closed at the end.

        The options are those of ``Redis.from_url``: ``decode_responses=True``, ``db=1``, ``client_name="worker-1"``, ...
        """
        client: redis.Redis = _library("redis", "Redis", "valkey", "Valkey").from_url(self.url, **options)
        self._clients.append(client)
        return client

    def async_client(self, **options: Any) -> redis.asyncio.Redis:
        """Return a new asyncio client of redis-py, or of valkey-py if only that is installed.

        Those of the fixture ``redouble`` are closed when the test function ends. Elsewhere close it with ``aclose()``,
        or use ``async with``.
        """
        client: redis.asyncio.Redis = _library("redis.asyncio", "Redis", "valkey.asyncio", "Valkey").from_url(
            self.url, **options
        )
        try:
            loop: Optional[asyncio.AbstractEventLoop] = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        self._async_clients.append((client, loop))
        return client

    def execute(self, *words: Word) -> Any:
        """Send one command over a new connection, without a client library, and return the reply.

        Text is decoded as UTF-8. Each call has a connection of its own, so MULTI and SUBSCRIBE need a client. Errors raise :class:`~redouble.CommandError`.
        """
        if not words or any(word is None for word in words):
            raise TypeError(f"a command is words, as in execute('GET', 'key'), not {words!r}")
        connection = Connection(self.host, self.port, 60.0)
        try:
            login: list[list[Word]] = [["AUTH", self.username, self.password or ""]] if self.username else []
            for reply in connection.run([*login, list(words)], 60.0):
                if isinstance(reply, CommandError):
                    raise reply
            return reply
        finally:
            connection.close()

    def close_clients(self) -> None:
        """Close the clients that ``client()`` and ``async_client()`` have returned."""
        clients, self._clients = self._clients, []
        for client in clients:
            try:
                client.close()
                client.connection_pool.disconnect()
            except Exception:  # a client that cannot be closed must not keep the others open
                pass
        left, self._async_clients = self._async_clients, []
        for client, loop in left:
            if loop is not None and not loop.is_closed() and not loop.is_running():
                try:
                    loop.run_until_complete(client.aclose())
                except Exception:  # as above
                    pass

    async def aclose_clients(self) -> None:
        """Close the clients that ``async_client()`` has returned, from within their event loop."""
        left, self._async_clients = self._async_clients, []
        for client, _ in left:
            try:
                await client.aclose()
            except Exception:  # a client that cannot be closed must not keep the others open
                pass

    # Powers

    def command(self, *words: Word, timeout: Optional[float] = 60.0) -> Any:
        """Send a REDOUBLE command, without that word: ``command("CLOCK", "FREEZE")``. All of them are in
        ``docs/powers.md``."""
        __tracebackhide__ = True
        if self._closed:
            raise RedoubleError(f"the space '{self._space}' was dropped")
        command: list[Word] = ["REDOUBLE", *words]
        commands = [command]
        if self._space:
            # The connection comes and goes, so that the clients of the space are those of the test.
            commands = [["REDOUBLE", "SPACE", self._space], command, ["REDOUBLE", "SPACE", ""]]
        replies = self._server._run(self._index, commands, timeout)
        for reply in (replies[0], replies[-2] if self._space else replies[0]):
            if isinstance(reply, CommandError):
                raise reply
        return replies[1] if self._space else replies[0]

    def fault(
        self,
        *verdict_words: Union[str, Duration],
        on: Optional[Commands] = None,
        key: Optional[str] = None,
        client: Union[str, int, None] = None,
        db: Optional[int] = None,
        nth: Optional[int] = None,
        times: Optional[int] = None,
        probability: Optional[float] = None,
        seed: Optional[int] = None,
        name: Optional[str] = None,
        must_fire: bool = True,
    ) -> Fault:
        """Make commands fail, from now until the end of the ``with`` block or ``remove()``::

            with redouble.fault("close-after", on="SET", key="lock:*", times=1):
                ...  # the lock is taken, and its holder does not know

        The verdict is one of ``("error", "OOM no memory")``, ``("delay", "2s")``, ``"close-before"``, ``"close-after"``,
        ``("truncate", 3)``, ``"hang"``, ``("drip", 10, "1s")``, ``"reset"``, ``"refuse"``, ``"pause"``. ``on`` names
        commands (``"SET"``, ``"SET GETSET"``, ``"@write"``), ``key`` is a glob, ``client`` a name's glob or a CLIENT ID;
        ``nth=3`` is the third match, ``times=1`` the first one, ``probability`` and ``seed`` choose at random. Always give
        ``on`` or ``client``: a fault without them also meets what client libraries send when they connect.
        """
        conditions = pattern(on, key, client, db, nth=nth, times=times, probability=probability, seed=seed)
        fault = Fault(self, name or f"fault-{next(_numbers)}", [*conditions, *verdict(verdict_words)], must_fire)
        self._faults[fault.name] = fault
        return fault

    def gate(
        self,
        on: Optional[Commands] = None,
        *,
        key: Optional[str] = None,
        client: Union[str, int, None] = None,
        db: Optional[int] = None,
        after: bool = False,
        timeout: Optional[Duration] = None,
        name: Optional[str] = None,
        must_be_reached: bool = True,
    ) -> Gate:
        """Hold commands before they run, or ``after`` they have run and before their reply is sent, until the end of the
        ``with`` block::

            with redouble.gate("SET", key="lock:*") as door:
                ...  # a thread sends SET
                door.wait_for(1)
                ...  # another client is faster
                door.step()

        The conditions are those of :meth:`fault`. A held command goes on by itself after ``timeout``, which is a minute
        of real time unless given.
        """
        conditions = pattern(on, key, client, db, after=after)
        if timeout is not None:
            conditions += ["timeout", milliseconds(timeout)]
        return Gate(self, name or f"gate-{next(_numbers)}", conditions, must_be_reached)

    def unfired_faults(self) -> list[str]:
        """The names of the faults that have not fired so far, without those with ``must_fire=False``."""
        names = self.command("FAULT", "UNFIRED")
        return [name for name in names if name not in self._faults or self._faults[name].must_fire]

    def reset(self) -> None:
        """Put everything back to the state at the start: data, clock, faults, gates, journal, audit, settings, users."""
        self.command("RESET")

    def mark(self, text: str) -> None:
        """Say what comes next, such as a test: findings say after which mark they came. A reset keeps the last one."""
        self.command("MARK", text.encode()[:1024].decode(errors="ignore"))

    def export(self, path: Path) -> Path:
        """Write the journal to a file, one JSON object a line."""
        directory = self._server._directory or Path(self._server.execute("CONFIG", "GET", "dir")[1])
        # Always the same file, because the server lets its clients create only so many.
        exported = directory / f"journal-export-{os.getpid()}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with _exporting:
            self.command("JOURNAL", "EXPORT", exported.name)
            if not exported.exists():
                raise RedoubleError(f"the server has written the journal to its own machine: {exported}")
            shutil.copyfile(exported, path)
        return path

    def report(self, path: Union[str, PathLike[str]]) -> Path:
        """Draw who held which lock when, as one HTML page."""
        return draw([self], Path(path), self._server)


def draw(endpoints: Sequence[Endpoint], path: Path, server: Server) -> Path:
    """Draw the journals of servers that ran together."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="redouble-") as folder:
        journals = [each.export(Path(folder) / f"{number}.jsonl") for number, each in enumerate(endpoints, 1)]
        command = [server._program(), "report", *map(str, journals), "-o", str(path.absolute())]
        for flag, globs in (("--locks", server.locks), ("--not-locks", server.not_locks)):
            for glob in globs:
                command += [flag, glob]
        allowed = fields(endpoints[0].command("AUDIT", "INFO"))["allowances"]
        if allowed:
            lines = [f"{of['code']} {of['keys']} {of['reason']}\n" for of in map(fields, allowed)]
            (Path(folder) / "allowed.txt").write_text("".join(lines), encoding="utf-8")
            command += ["--allow", str(Path(folder) / "allowed.txt")]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise RedoubleError(f"no report could be drawn: {(done.stderr or done.stdout).strip()}")
    return path


def _library(module: str, name: str, other_module: str, other_name: str) -> Any:
    """The class of a client library: the first one that is installed."""
    for each, attribute in ((module, name), (other_module, other_name)):
        try:
            return getattr(importlib.import_module(each), attribute)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != each.partition(".")[0]:
                raise  # the library is there, and something that it needs is not
    raise ClientLibraryMissing(
        "no client library is installed: `pip install redis` (or valkey); or connect your own client to the url, or send "
        "single commands with execute()"
    )
