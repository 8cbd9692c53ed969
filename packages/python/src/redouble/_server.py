"""Starts and stops the server."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Iterable, Optional, Sequence, Union
from urllib.parse import unquote, urlsplit

from ._binary import binary as find_binary
from ._endpoint import Endpoint, draw
from ._errors import ConnectionLost, RedoubleError, ServerDied
from ._resp import Connections, Word
from ._words import Duration, milliseconds

PathLike = Union[str, "os.PathLike[str]"]


def _texts(value: Union[str, Iterable[str]]) -> tuple[str, ...]:
    """One text, or several."""
    return (value,) if isinstance(value, str) else tuple(value)


class Server(Endpoint):
    """A server of its own, on a free port, from :meth:`start` to :meth:`stop`, or as long as a ``with`` block::

        with redouble.Server() as server:
            client = server.client()

    It also ends when this process ends, even by ``kill -9``. Nothing is shared with other servers.
    """

    def __init__(
        self,
        *,
        compat: Optional[str] = None,
        instances: int = 1,
        load: Union[PathLike, Sequence[PathLike], None] = None,
        audit: bool = True,
        journal: bool = True,
        locks: Union[str, Iterable[str]] = (),
        not_locks: Union[str, Iterable[str]] = (),
        allow: Union[str, Iterable[str]] = (),
        password: Optional[str] = None,
        threads: Optional[int] = None,
        port: int = 0,
        binary: Optional[PathLike] = None,
        args: Sequence[str] = (),
        start_timeout: float = 30.0,
    ):
        """
        - ``compat``: which server to behave as, for example ``"redis-8.4"`` or ``"valkey-9.1"``.
        - ``instances``: how many servers to be, each with a port of its own (Redlock): see :attr:`instances`.
        - ``load``: files with data to begin with.
        - ``audit``, ``journal``: whether the auditor and the journal are on.
        - ``locks``, ``not_locks``: globs of keys that are locks, and of keys that are none.
        - ``allow``: findings that are known, each as ``"CODE GLOB REASON"``.
        - ``password``: what clients must give.
        - ``threads``: how many threads serve.
        - ``port``: 0 is a free one.
        - ``binary``: the program; else that of ``REDOUBLE_BINARY`` or the installed one.
        - ``args``: further flags of the program, for example ``["--maxmemory", "10mb"]``.
        - ``start_timeout``: seconds of real time.
        """
        super().__init__(self, 0, "")
        self.compat = compat
        self.instance_count = instances
        self.audits = audit
        self.locks = _texts(locks)
        self.not_locks = _texts(not_locks)
        self.allow = _texts(allow)
        self.server_password = password
        self._binary = None if binary is None else os.fspath(binary)
        self._start_timeout = start_timeout
        self._hosts = ["127.0.0.1"]
        self._ports: list[int] = []
        self._connections: list[Connections] = []
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._owner = os.getpid()
        self._directory: Optional[Path] = None
        self._log: Optional[IO[bytes]] = None
        self._ended: Optional[str] = None
        self._attached = False
        paths = [] if load is None else [load] if isinstance(load, (str, os.PathLike)) else list(load)
        self._flags: list[str] = []
        self._flag("--port", port)
        self._flag("--exit-with-parent", "yes")
        self._flag("--compat", compat)
        self._flag("--instances", instances if instances != 1 else None)
        self._flag("--audit", "yes" if audit else None)
        self._flag("--journal", "yes" if journal and not audit else None)
        self._flag("--requirepass", password)
        self._flag("--threads", threads)
        for flag, values in (
            ("--load", [os.path.abspath(path) for path in paths]),
            ("--locks", self.locks),
            ("--not-locks", self.not_locks),
            ("--audit-allow", self.allow),
        ):
            for value in values:
                self._flag(flag, value)
        self._flags += args

    def _flag(self, flag: str, value: object) -> None:
        if value is not None:
            self._flags += [flag, str(value)]

    @classmethod
    def connect(cls, url: str, *, binary: Optional[PathLike] = None) -> Server:
        """Return a server that runs already, for example in a container: ``Server.connect("redis://localhost:6379")``.

        ``start()`` and ``stop()`` leave it as it is.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("redis", "valkey") or (parts.username or "default") != "default":
            raise ValueError(f"a URL as redis://host:port or redis://default:password@host:port, not {url!r}")
        # Whether it audits is not known.
        server = cls(password=unquote(parts.password) if parts.password else None, audit=False, binary=binary)
        server._attached = True
        server._hosts = [parts.hostname or "127.0.0.1"]
        server._ports = [parts.port or 6379]
        server._connect()
        return server

    def address(self) -> dict[str, Any]:
        """What another process of this machine needs to know for :meth:`at`, as plain data."""
        return {
            "hosts": self._hosts,
            "ports": self._ports,
            "password": self.server_password,
            "directory": None if self._directory is None else str(self._directory),
            "audit": self.audits,
            "locks": self.locks,
            "not_locks": self.not_locks,
        }

    @classmethod
    def at(cls, address: dict[str, Any], *, binary: Optional[PathLike] = None) -> Server:
        """Return the server that another process has started and described by :meth:`address`."""
        server = cls(
            password=address["password"],
            audit=address["audit"],
            locks=address["locks"],
            not_locks=address["not_locks"],
            binary=binary,
        )
        server._attached = True
        server._adopt(address)
        return server

    def _adopt(self, address: dict[str, Any]) -> None:
        self._hosts, self._ports = address["hosts"], address["ports"]
        self._directory = Path(address["directory"]) if address["directory"] else None
        self._connect()

    # Its life

    def start(self) -> Server:
        """Start it, and return once it accepts connections."""
        if self.running:
            return self
        program = self._program()
        # A server that has died leaves its directory.
        self._tidy()
        self._ended = None
        directory = Path(tempfile.mkdtemp(prefix="redouble-"))
        port_file, log = directory / "port", directory / "log"
        command = [program, *self._flags, "--port-file", str(port_file), "--logfile", str(log), "--dir", str(directory)]
        self._directory = directory
        self._log = open(directory / "output", "w+b")
        try:
            # A session of its own: the Ctrl-C of a terminal is meant for the tests, which still need the server to end.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, start_new_session=True
            )
        except OSError as error:
            self._tidy()
            raise ServerDied(
                f"{program} cannot be run: {error.strerror or error}. Is it built for this system and processor?"
            ) from error
        self._owner = os.getpid()
        give_up = time.monotonic() + self._start_timeout
        pause = 0.0005
        while not port_file.exists():
            if self._process.poll() is not None:
                raise self._died("the server did not start")
            if time.monotonic() > give_up:
                self._process.kill()
                self._process.wait()
                raise self._died(f"the server was not ready within {self._start_timeout:g} s")
            time.sleep(pause)
            pause = min(pause * 2, 0.01)
        self._ports = [int(port) for port in port_file.read_text().split()]
        self._connect()
        return self

    def _connect(self) -> None:
        for connections in self._connections:
            connections.close()
        self._connections = [Connections(self._hosts[0], port, self.server_password) for port in self._ports]

    def stop(self) -> None:
        """Stop it, and close the clients of :meth:`client`. A server that has ended or was never started is left alone."""
        self.close_clients()
        for connections in self._connections:
            connections.close()
        if self._attached or self._process is None or self._owner != os.getpid():
            return
        process, self._process = self._process, None
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._tidy()

    def _tidy(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None
        self._ports, self._connections = [], []

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether it accepts connections, as far as is known."""
        if self._attached:
            return True
        if self._process is None:
            return False
        # Only the process that has started it can ask for its state.
        return self._owner != os.getpid() or self._process.poll() is None

    @property
    def pid(self) -> Optional[int]:
        """Its process id; None unless it was started here and runs."""
        return self._process.pid if self._process is not None and self.running else None

    @property
    def log(self) -> str:
        """What it has written to its log."""
        if self._directory is None:
            return self._ended or ""
        texts = []
        for name in ("log", "output"):
            try:
                texts.append((self._directory / name).read_text(encoding="utf-8", errors="replace"))
            except FileNotFoundError:
                pass
        return "".join(texts)

    def _died(self, what: str) -> ServerDied:
        log = self.log.strip()
        self._ended = log
        status = f" (exit status {self._process.returncode})" if self._process is not None else ""
        said = "\n".join(f"  {line}" for line in log.splitlines()[-15:]) or "  (nothing)"
        if self._process is not None and self._process.poll() is not None:
            self._process = None
            self._tidy()
        return ServerDied(f"{what}{status}. The end of its log:\n{said}")

    def _program(self) -> str:
        return find_binary() if self._binary is None else self._binary

    # What it is

    @property
    def password(self) -> Optional[str]:
        return self.server_password

    @property
    def version(self) -> str:
        """The version of redouble, for example ``0.1.0``."""
        said = subprocess.run([self._program(), "--version"], capture_output=True, text=True).stdout
        found = re.search(r"redouble[ =v-]*(\d+\.\d+\.\d+\S*)", said)
        return found.group(1) if found else said.strip()

    @property
    def redis_version(self) -> str:
        """The version of Redis that it tells its clients, for example ``7.2.5``."""
        info = str(self.execute("INFO", "server"))
        return next(line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("redis_version:"))

    @property
    def instances(self) -> list[Instance]:
        """The servers of ``instances=N``, each with its own address, data, clock, faults and journal."""
        return [Instance(self, index) for index in range(len(self._ports))]

    @property
    def urls(self) -> list[str]:
        """The URLs of all instances."""
        return [instance.url for instance in self.instances]

    def space(self, name: Optional[str] = None) -> Space:
        """Return a private world behind the same port, with its own data, clock, faults, gates, journal and audit.

        As a context manager it is dropped at the end. It is made on first use; a name gives the same space everywhere.
        """
        return Space(self, name or f"space-{secrets.token_hex(8)}")

    def spaces(self) -> list[str]:
        """The names of the spaces that there are."""
        return [str(reply[1]) for reply in self.command("SPACES", "LIST")]

    def report(self, path: PathLike) -> Path:
        """Draw who held which lock when, on all instances, as one HTML page."""
        return draw(self.instances, Path(path), self)

    def _port(self, index: int) -> int:
        if not self._ports:
            if self._ended is not None:
                raise ServerDied("the server has ended")
            raise RedoubleError("the server is not started: use `with redouble.Server() as server`, or start()")
        return self._ports[index]

    def _run(self, index: int, commands: Sequence[Sequence[Word]], timeout: Optional[float]) -> list[Any]:
        __tracebackhide__ = True
        self._port(index)
        try:
            return self._connections[index].run(commands, timeout)
        except ConnectionLost:
            if self._process is not None and self._owner == os.getpid() and self._has_ended():
                raise self._died("the server has ended") from None
            if self._attached and self._directory is not None and not self._accepts(index):
                raise self._died("the server has ended") from None
            raise

    def _accepts(self, index: int) -> bool:
        try:
            socket.create_connection((self._hosts[0], self._ports[index]), 5).close()
        except OSError:
            return False
        return True

    def _has_ended(self) -> bool:
        """Whether the process ends, now that it has closed a connection."""
        assert self._process is not None
        try:
            self._process.wait(0.5)
        except subprocess.TimeoutExpired:
            return False
        return True


class Instance(Endpoint):
    """One of the servers of ``Server(instances=N)``."""

    def __init__(self, server: Server, index: int):
        super().__init__(server, index, "")
        self.number = index + 1
        """Its number for ``REDOUBLE INSTANCE``, from 1."""

    def _control(self, action: str, *words: Word) -> Any:
        # A stopped instance cannot be asked, so another one is.
        others = [index for index in range(len(self._server._ports)) if index != self._index]
        command = [["REDOUBLE", "INSTANCE", action, self.number, *words]]
        for index in [*others, self._index]:
            try:
                (reply,) = self._server._run(index, command, 60.0)
            except ConnectionLost:
                continue
            if isinstance(reply, Exception):
                raise reply
            return reply
        raise RedoubleError("no instance accepts connections")

    def stop(self) -> None:
        """Close its connections and refuse new ones; its data stays."""
        self._control("STOP")

    def start(self, *, empty: bool = False) -> None:
        """Let it serve again, with its data or ``empty``."""
        self._control("START", *(["EMPTY"] if empty else []))

    def pause(self) -> None:
        """Let it accept connections and answer nothing."""
        self._control("PAUSE")

    def resume(self) -> None:
        """End a pause."""
        self._control("RESUME")

    def skew(self, duration: Duration) -> None:
        """Set its clock ahead of the first instance's, or behind it (``-1.5`` or ``"-1.5s"``)."""
        self._control("SKEW", milliseconds(duration))

    def cut(self, client: str) -> None:
        """Let commands of clients with this name (a glob) hang here."""
        self._control("CUT", client)

    def heal(self, client: Optional[str] = None) -> None:
        """End a cut, or all."""
        self._control("HEAL", *([] if client is None else [client]))


class Space(Endpoint):
    """A private world behind a server's port. As a context manager it is dropped at the end."""

    def __init__(self, server: Server, name: str):
        if not 0 < len(name.encode()) <= 128:
            raise ValueError("the name of a space has 1 to 128 bytes")
        super().__init__(server, 0, name)
        self.name = name
        # It is there from now on, also for SPACES LIST.
        self.command("SPACE")

    @property
    def server(self) -> Server:
        """The server behind whose port it is."""
        return self._server

    def drop(self) -> None:
        """Close the clients, delete the space, and close all other connections to it."""
        self.close_clients()
        if not self._closed:
            self._closed = True
            if not self._server.running:
                return
            self._server._run(0, [["REDOUBLE", "SPACES", "DROP", self.name]], 60.0)

    def __enter__(self) -> Space:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.drop()
