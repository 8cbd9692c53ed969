"""What the pytest plugin does in a process whose tests use it."""

from __future__ import annotations

import functools
import inspect
import itertools
import os
import re
import secrets
from pathlib import Path
from typing import Any, Iterator, Optional, Union

import pytest

from ._audit import Finding, told
from ._endpoint import Endpoint
from ._errors import ConnectionLost, RedoubleError, ServerDied
from ._pytest_broker import ask
from ._pytest_summary import folder_of
from ._server import Instance, Server, Space

_SERIOUS = {"error": 2, "warning": 1, "note": 0}

# The least severity that fails a test, for each level.
_FAILS = {"off": None, "report": None, "error": "error", "warn": "warning"}


class Watched:
    """A test, and what came of its commands."""

    def __init__(self, endpoint: Union[Server, Space], level: str, since: int = 0, owned: bool = False):
        self.endpoint = endpoint
        self.level = level
        self.since = since
        # Nobody else uses the endpoint, so faults that never fired are this test's.
        self.owned = owned
        self.findings: list[Finding] = []
        self.page: Optional[str] = None
        self.commands = 0
        self.failed = False
        self.told = False
        # What a report tells that is made after the endpoint has gone.
        self.sections: list[tuple[str, str]] = []

    def endpoints(self) -> list[Endpoint]:
        server = self.endpoint
        return list(server.instances) if isinstance(server, Server) else [server]

    def look(self, final: bool) -> list[Finding]:
        """The findings of this test's commands; each once, although every instance tells all."""
        if self.level == "off":
            return []
        found: dict[tuple[object, ...], Finding] = {}
        for finding in self._findings(final):
            found[(finding.code, finding.key, finding.server, finding.seq)] = finding
        return list(found.values())

    def _findings(self, final: bool) -> list[Finding]:
        """Those of the first instance that can be asked: a test may have stopped others."""
        lost: Optional[ConnectionLost] = None
        for each in self.endpoints():
            try:
                return each.audit.findings(since=self.since or None, final=final)
            except ConnectionLost as error:
                lost = lost or error
        if lost is not None:
            raise lost
        return []

    def unfired(self) -> list[str]:
        """The faults that never fired, of the instances that can be asked."""
        names: list[str] = []
        for each in self.endpoints():
            try:
                names += each.unfired_faults()
            except ConnectionLost:
                pass
        return names

    def failing(self, findings: list[Finding]) -> list[Finding]:
        least = _FAILS[self.level]
        return [each for each in findings if least and _SERIOUS[each.severity] >= _SERIOUS[least]]


_WATCHED: pytest.StashKey[Watched] = pytest.StashKey()


class Run:
    """A plugin that is registered when the first test needs a server."""

    def __init__(self, config: pytest.Config, options: Any):
        self._config = config
        self._options = options
        self._server: Optional[Server] = None
        self._numbers = itertools.count(1)
        self._token = secrets.token_hex(4)
        self._has_environment = False

    def _setting(self, name: str) -> Any:
        value = getattr(self._options, f"redouble_{name}", None)
        return value if value is not None else self._config.getini(f"redouble_{name}") or None

    def _level(self) -> str:
        level = str(self._setting("audit") or "report")
        if level not in _FAILS:
            raise pytest.UsageError(f"redouble_audit is {level!r}: off, report, error or warn")
        return level

    @property
    def _binary(self) -> Optional[str]:
        binary: Optional[str] = self._setting("binary")
        return binary

    # The server

    def server(self) -> Server:
        """The server of this run. One that a test has shut down is started again."""
        if self._server is None or not self._lives(self._server):
            self._server = self._started()
        return self._server

    def _lives(self, server: Server) -> bool:
        if not server.running:
            return False
        try:
            server.command("SPACE")
        except RedoubleError:
            return False
        return True

    def _started(self) -> Server:
        url = self._setting("url")
        if url:
            return Server.connect(url, binary=self._binary)
        broker = getattr(self._config, "workerinput", {}).get("redouble_broker")
        if broker and not self._has_environment:
            try:
                answer = ask(broker)
            except (OSError, ValueError):
                pass  # The controller is on another machine.
            else:
                if "error" in answer:
                    raise ServerDied(answer["error"])
                # Who has the fixture `redouble_server` keeps the same object.
                if self._server is None:
                    return Server.at(answer, binary=self._binary)
                self._server._adopt(answer)
                return self._server
        return (self._server or self._new()).start()

    def _new(self, mark: Optional[dict[str, Any]] = None) -> Server:
        """A server with the settings of this run, and those of a test's marker."""
        mark = mark or {}
        config = self._config
        level = mark.get("audit") or self._level()
        return Server(
            compat=mark.get("compat") or self._setting("compat"),
            instances=int(mark.get("instances") or self._setting("instances") or 1),
            load=[config.rootpath / path for path in [*config.getini("redouble_load"), *mark.get("load", ())]],
            audit=level != "off",
            locks=[*config.getini("redouble_locks"), *mark.get("locks", ())],
            not_locks=config.getini("redouble_not_locks"),
            allow=config.getini("redouble_allow"),
            binary=self._binary,
        )

    def set_environment(self) -> None:
        """Put the address of the server into the environment, before modules are imported that read it."""
        self._has_environment = True
        server = self.server()
        os.environ.update(server.env)
        for each in [*self._config.getini("redouble_env"), *self._options.redouble_env]:
            name, _, template = each.partition("=")
            values = {"url": server.url, "host": server.host, "port": server.port}
            try:
                os.environ[name.strip()] = template.strip().format(**values) if template else self._of_name(name, server)
            except (KeyError, IndexError, ValueError) as error:
                raise pytest.UsageError(
                    f"redouble_env: {each!r}: a template has {{url}}, {{host}} or {{port}} in it"
                ) from error

    @staticmethod
    def _of_name(name: str, server: Server) -> str:
        return server.env.get(name.strip(), server.url)

    def _shared_page(self) -> Optional[Path]:
        """The page of a server that all tests of this process share, if they leave one page altogether."""
        path = getattr(self._options, "redouble_report", None)
        if not path or not self._has_environment:
            return None
        return folder_of(Path(path)) / f"all-{os.environ.get('PYTEST_XDIST_WORKER', 'tests')}.html"

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        page = self._shared_page()
        if page is not None and self._server is not None and self._server.running:
            self._server.report(page)

    def pytest_unconfigure(self) -> None:
        if self._server is not None:
            self._server.stop()

    # The fixture

    def private(self, item: pytest.Item) -> Iterator[Space]:
        """A server or a space for one test."""
        marks = [mark.kwargs for mark in item.iter_markers("redouble")]
        # The nearest marker is first, and counts most; lists add up.
        mark: dict[str, Any] = {}
        if any(each.args for each in item.iter_markers("redouble")):
            raise pytest.UsageError(f"{item.nodeid}: the marker redouble takes names, as in redouble(audit='error')")
        for each in reversed(marks):
            unknown = set(each) - {"compat", "instances", "audit", "allow", "locks", "load"}
            if unknown:
                raise pytest.UsageError(f"{item.nodeid}: the marker redouble has no {', '.join(sorted(unknown))}=")
            for name, value in each.items():
                joins = name in ("allow", "locks", "load")
                mark[name] = [*mark.get(name, ()), *([value] if isinstance(value, str) else value)] if joins else value
        level = mark.get("audit") or self._level()
        if level not in _FAILS:
            raise pytest.UsageError(f"{item.nodeid}: audit={level!r}: off, report, error or warn")
        test = getattr(item, "obj", None)
        endpoint: Any
        if self._needs_server(mark):
            endpoint = self._new(mark).start()
        else:
            endpoint = self.server().space(self._name(item))
            if not endpoint.server.audits:
                endpoint.journal.on()
                if level != "off":
                    endpoint.audit.on()
        try:
            for allowance in mark.get("allow", ()):
                code, key, reason = (*allowance.split(None, 2), "", "", "")[:3]
                for each in endpoint.instances if isinstance(endpoint, Server) else [endpoint]:
                    each.audit.allow(code, key or "*", reason or "known")
            endpoint.mark(item.nodeid)
            watched = Watched(endpoint, level, owned=True)
            item.stash[_WATCHED] = watched
            _close_async_clients_with(item, endpoint)
            yield endpoint
            self._finish(item, watched)
        finally:
            if test is not None:
                item.obj = test  # type: ignore[attr-defined]
            if isinstance(endpoint, Server):
                endpoint.stop()
            else:
                try:
                    endpoint.drop()
                except (ConnectionLost, ServerDied):
                    pass  # the test has shut the server down; the next test starts it again

    def _needs_server(self, mark: dict[str, Any]) -> bool:
        """Whether what the marker or the settings ask for is not to be had of a space."""
        if mark.get("instances") or mark.get("locks") or mark.get("load") or self._config.getini("redouble_load"):
            return True
        if int(self._setting("instances") or 1) > 1:
            return True
        compat = mark.get("compat")
        return compat is not None and compat != self._setting("compat")

    def _name(self, item: pytest.Item) -> str:
        name = re.sub(r"[^A-Za-z0-9_]+", "-", item.name).strip("-")[:60]
        # Runs on several machines may share a server (--redouble-url), and forked tests this object.
        return f"{name}-{self._token}-{os.getpid()}-{next(self._numbers)}"

    def _finish(self, item: pytest.Item, watched: Watched) -> None:
        """Ask for the findings, now that fixtures that came later have released their locks."""
        try:
            findings = watched.look(final=True)
        except (ConnectionLost, ServerDied):
            return
        before = {(each.code, each.key, each.seq) for each in watched.findings}
        late = [each for each in findings if (each.code, each.key, each.seq) not in before]
        watched.findings = findings
        watched.sections = self._sections(watched)
        self._draw(item, watched)
        failing = [] if watched.failed else watched.failing(late)
        if failing:
            watched.told = True
            watched.sections = self._sections(watched)
            pytest.fail(told(failing), pytrace=False)

    def _draw(self, item: pytest.Item, watched: Watched) -> None:
        path = getattr(self._options, "redouble_report", None)
        if not path:
            return
        watched.commands = sum(each.journal.count() for each in watched.endpoints())
        folder = folder_of(Path(path))
        name = re.sub(r"[^A-Za-z0-9_.]+", "-", item.nodeid).strip("-")[-120:]
        page = folder / f"{name}-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}-{next(self._numbers)}.html"
        watched.endpoint.report(page)
        watched.page = f"{folder.name}/{page.name}"

    # What a test's report tells

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if _WATCHED in item.stash:
            del item.stash[_WATCHED]  # a test that is run again
        if self._is_on_shared(item):
            try:
                self.server().mark(item.nodeid)
                item.stash[_WATCHED] = Watched(self.server(), self._level(), self.server().journal.last_seq())
            except RedoubleError:
                pass  # the fixture tells it

    def _is_on_shared(self, item: pytest.Item) -> bool:
        """Whether a test's commands go to the server itself, and nobody else's do."""
        names = getattr(item, "fixturenames", ())
        if "redouble" in names or self._server is None:
            return False
        alone = not hasattr(self._config, "workerinput") and not self._setting("url")
        return self._has_environment or (alone and "redouble_server" in names)

    def _watched(self, item: pytest.Item) -> Optional[Watched]:
        watched = item.stash.get(_WATCHED, None)
        if watched is None and self._server is not None and self._is_on_shared(item):
            # The first test of all: this plugin was not there at its beginning.
            watched = item.stash[_WATCHED] = Watched(self._server, self._level())
        return watched

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        """The test has passed so far: it fails for what its commands did, or what its faults did not."""
        watched = self._watched(item)
        if watched is None:
            return
        try:
            unfired = watched.unfired() if watched.owned else []
            watched.findings = watched.look(final=False)
        except (ConnectionLost, ServerDied) as error:
            if _FAILS[watched.level]:
                pytest.fail(
                    f"the server has ended, so nobody can say whether this test misuses a lock ({error}); "
                    "@pytest.mark.redouble(audit='off') is for a test that ends it on purpose",
                    pytrace=False,
                )
            return
        if unfired:
            pytest.fail(f"faults that never fired: {', '.join(unfired)}", pytrace=False)
        failing = watched.failing(watched.findings)
        if failing:
            watched.told = True
            pytest.fail(told(failing), pytrace=False)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        outcome: Any = yield
        report: pytest.TestReport = outcome.get_result()
        watched = self._watched(item)
        if watched is None:
            return
        if report.failed:
            watched.failed = True
            report.sections += watched.sections if report.when == "teardown" else self._sections(watched)
        page = self._shared_page()
        if report.when == "teardown" and page is not None and not watched.owned:
            watched.page = f"{page.parent.name}/{page.name}"
            watched.commands = sum(each.journal.count(since=watched.since or None) for each in watched.endpoints())
        if report.when == "teardown":
            findings = [each for each in watched.findings if each.severity != "note"]
            if findings or watched.page:
                # pytest-xdist and pytest-forked hand on what is plain data.
                report.redouble = {  # type: ignore[attr-defined]
                    "findings": [[each.severity, each.code, each.sentence] for each in findings],
                    "failed": watched.failed,
                    "page": watched.page,
                    "commands": watched.commands,
                }

    def _sections(self, watched: Watched) -> list[tuple[str, str]]:
        sections: list[tuple[str, str]] = []
        count = int(self._config.getini("redouble_commands"))
        try:
            findings = watched.findings or watched.look(final=False)
            if findings and not watched.told:
                sections.append(("redouble: lock findings", "\n\n".join(map(str, findings))))
            watched.findings = findings
            for each in watched.endpoints():
                several = (
                    f" of server {each.number}" if isinstance(each, Instance) and len(watched.endpoints()) > 1 else ""
                )
                try:
                    last = [entry for entry in each.journal.recent(count) if entry.seq > watched.since]
                    text = "\n".join(map(str, last)) or f"(none came to {each.url})"
                except ConnectionLost as error:
                    text = f"({error})"
                sections.append((f"redouble: last commands{several}", text))
        except RedoubleError as error:
            sections.append(("redouble", str(error)))
        return sections


def _close_async_clients_with(item: pytest.Item, endpoint: Endpoint) -> None:
    """Let a coroutine that is a test close its clients: only its event loop can."""
    test = getattr(item, "obj", None)
    if not inspect.iscoroutinefunction(test):
        return

    @functools.wraps(test)
    async def closing(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        try:
            return await test(*args, **kwargs)
        finally:
            await endpoint.aclose_clients()

    item.obj = closing  # type: ignore[attr-defined]
