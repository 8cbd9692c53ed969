"""The pytest plugin: fixtures, options, and what a failing test tells.

Nothing else of this package is imported before a test uses a fixture (or ``redouble_env`` is set).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator, Optional

import pytest

if TYPE_CHECKING:
    from . import Server, Space
    from ._pytest_broker import Broker
    from ._pytest_run import Run

AUDIT = ("off", "report", "error", "warn")

_OPTIONS = {
    "audit": "what findings of the lock auditor do: off: nothing is audited; report (default): they are listed at the end; "
    "error: errors fail the test whose commands caused them; warn: warnings, too",
    "compat": "which server to behave as, for example redis-8.4 or valkey-9.1",
    "binary": "the program redouble; else REDOUBLE_BINARY or the installed one",
    "url": "use a server that runs already, for example redis://localhost:6379, and start none",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("redouble", "redouble: a Redis for tests")
    for name, text in _OPTIONS.items():
        value: dict[str, Any] = {"choices": AUDIT} if name == "audit" else {"metavar": name.upper()}
        group.addoption(f"--redouble-{name}", dest=f"redouble_{name}", default=None, help=text, **value)
        parser.addini(f"redouble_{name}", f"the same as --redouble-{name}")
    group.addoption(
        "--redouble-instances", dest="redouble_instances", type=int, metavar="N", help="how many servers (Redlock)"
    )
    parser.addini("redouble_instances", "the same as --redouble-instances")
    group.addoption(
        "--redouble-report",
        dest="redouble_report",
        metavar="FILE.html",
        help="draws each test's locks and commands: a page for each test, and FILE.html, which lists them",
    )
    group.addoption(
        "--redouble-env",
        dest="redouble_env",
        action="append",
        default=[],
        metavar="NAME[=TEMPLATE]",
        help="starts a server before anything is imported, and puts its URL into this environment variable, into "
        "REDIS_URL, and its parts into REDIS_HOST and REDIS_PORT; a template has {url}, {host} or {port} in it. "
        "With pytest-xdist each worker has a server of its own",
    )
    parser.addini("redouble_env", "the same as --redouble-env, one a line", type="linelist", default=[])
    parser.addini("redouble_locks", "keys that are locks, whatever is done with them: a glob a line", type="linelist")
    parser.addini("redouble_not_locks", "keys that are no locks: a glob a line", type="linelist")
    parser.addini("redouble_allow", "findings that are known: CODE GLOB REASON, one a line", type="linelist")
    parser.addini("redouble_load", "files with data that each test begins with, one a line", type="linelist")
    parser.addini("redouble_commands", "how many commands the report of a failing test shows", default="20")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "redouble(compat=None, instances=None, audit=None, allow=[], locks=[], load=[]): the server of the fixture "
        "redouble: which server it behaves as, how many instances it has, what findings do (off, report, error, warn), "
        "which findings are known (CODE GLOB REASON), which keys are locks, which files it begins with.",
    )
    audit = config.getoption("redouble_audit") or config.getini("redouble_audit")
    if audit and audit not in AUDIT:
        raise pytest.UsageError(f"redouble_audit is {audit!r}: {', '.join(AUDIT)}")
    if not str(config.getini("redouble_commands")).isdigit():
        raise pytest.UsageError(f"redouble_commands is {config.getini('redouble_commands')!r}: a number of commands")
    instances = config.getoption("redouble_instances")
    if instances is not None and instances < 1:
        raise pytest.UsageError("--redouble-instances: at least 1")
    config.pluginmanager.register(_Summary(config), "redouble-summary")
    if hasattr(config.option, "forked"):
        config.pluginmanager.register(_BeforeFork(), "redouble-before-fork")


class _BeforeFork:
    """With pytest-forked, each test runs in a process of its own. The server is started before, for all of them."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        names = getattr(item, "fixturenames", ())
        if ("redouble" in names or "redouble_server" in names) and (
            item.config.option.forked or item.get_closest_marker("forked")
        ):
            _run(item.config).server()


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    options = early_config.known_args_namespace
    if options.redouble_env or early_config.getini("redouble_env"):
        if not (options.help or options.version):
            _run(early_config, options).set_environment()


def _run(config: pytest.Config, options: Any = None) -> Run:
    """The state of this process, which begins when something is needed of it."""
    from ._pytest_run import Run

    run: Optional[Run] = config.pluginmanager.get_plugin("redouble-run")
    if run is None:
        run = Run(config, options or config.option)
        config.pluginmanager.register(run, "redouble-run")
    return run


@pytest.fixture(scope="session")
def redouble_server(request: pytest.FixtureRequest) -> Server:
    """The ``redouble.Server`` of this run, one for all workers of pytest-xdist.

    Tests share it; the fixture ``redouble`` is a private space of it.
    """
    return _run(request.config).server()


@pytest.fixture
def redouble(request: pytest.FixtureRequest) -> Iterator[Space]:
    """A private Redis for this test: ``url``, ``client()``, ``async_client()``, and the powers ``clock``, ``fault()``,
    ``gate()``, ``journal``, ``audit``.

    It is a ``redouble.Space`` of the server of this run. With ``@pytest.mark.redouble(instances=5)``, ``compat=...``,
    ``locks=...`` or ``load=...`` it is a ``redouble.Server`` of the test's own. Its clients are closed, and its data is
    dropped, at the end.
    """
    yield from _run(request.config).private(request.node)


# With pytest-xdist, this process starts the server, and the workers ask for it.

_BROKER = "redouble-broker"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    manager = node.config.pluginmanager
    broker: Optional[Broker] = manager.get_plugin(_BROKER)
    if broker is None:
        from ._pytest_broker import Broker

        broker = Broker(node.config)
        manager.register(broker, _BROKER)
    node.workerinput["redouble_broker"] = broker.address


class _Summary:
    """What the tests have found comes with their reports, also from the workers of pytest-xdist."""

    def __init__(self, config: pytest.Config):
        collects = config.getoption("collectonly", False)
        self._report_path: Optional[str] = None if collects else config.getoption("redouble_report")
        self._is_worker = hasattr(config, "workerinput")
        self._told: list[tuple[str, dict[str, Any]]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        told = getattr(report, "redouble", None)
        if told is not None:
            self._told.append((report.nodeid, told))

    def pytest_sessionfinish(self) -> None:
        if self._report_path and not self._is_worker:
            from ._pytest_summary import write_index

            write_index(self._report_path, self._told)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._told or self._report_path:
            from ._pytest_summary import summarize

            summarize(terminalreporter, self._told, self._report_path)
