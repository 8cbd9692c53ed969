#!/usr/bin/env python3
"""Tries the container image: as skopeo and umoci read it, and in containers that runc runs.

    python3 packages/image/tests/run.py FOLDER            the folder with the built image
    python3 packages/image/tests/run.py FOLDER -- NAME    the stories whose names contain this

Needs skopeo, umoci and runc, which it installs where apt can, and root for containers. Each container has a network of
its own, so no port of the machine is used. What the stories play was read where docs/image.md says.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback
from pathlib import Path

PATIENCE = 20
TOOLS = ["skopeo", "umoci", "runc"]
ENTRYPOINT = ["docker-entrypoint.sh"]
READY = "Ready to accept connections"
# An address that is no loopback, as those that other containers connect to.
OUTSIDE = "10.9.8.7"

stories = []
# Those that need no container.
of_the_file = []


def story(function):
    stories.append(function)
    return function


def story_of_the_file(function):
    of_the_file.append(function)
    return story(function)


def is_root() -> bool:
    """Whether this is the machine's root, and not one of a user namespace, who may not make containers."""
    return os.geteuid() == 0 and Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]


class Image:
    """The built image, unpacked."""

    def __init__(self, archive: Path, scratch: Path):
        self.archive, self.scratch = archive, scratch
        self.bundle = scratch / "bundle"
        self.count = 0
        layout = f"oci:{scratch / 'layout'}:tried"
        run(["skopeo", "copy", "--quiet", f"oci-archive:{archive}", layout])
        how = [] if is_root() else ["--rootless"]
        run(["umoci", "unpack", *how, "--image", layout.removeprefix("oci:"), self.bundle])
        self.runtime = json.loads((self.bundle / "config.json").read_text())
        with tarfile.open(archive) as tar:
            self.files = {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}
        self.manifest = self.blob(json.loads(self.files["index.json"])["manifests"][0])
        self.config = self.blob(self.manifest["config"])

    def blob(self, descriptor: dict) -> dict:
        data = self.files["blobs/" + descriptor["digest"].replace(":", "/")]
        assert "sha256:" + hashlib.sha256(data).hexdigest() == descriptor["digest"] and len(data) == descriptor["size"]
        return json.loads(data)


class Container:
    """A running container: `docker run IMAGE ARGUMENTS`, with its output in a file."""

    def __init__(self, image: Image, arguments=None, entrypoint=None, user=None, env=(), files=(), read_only=False):
        image.count += 1
        self.id = f"redouble-{os.getpid()}-{image.count}"
        self.folder = image.scratch / self.id
        self.folder.mkdir()
        # Owners stay, which shutil does not keep.
        run(["cp", "-a", image.bundle / "rootfs", self.folder])
        for path, text, mode in files:
            target = self.folder / "rootfs" / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
            target.chmod(mode)
        config = json.loads(json.dumps(image.runtime))
        process = config["process"]
        arguments = arguments if arguments is not None or entrypoint else image.config["config"]["Cmd"]
        process["args"] = [*(entrypoint or image.config["config"]["Entrypoint"]), *(arguments or [])]
        process["terminal"] = False
        process["env"] = [*process["env"], *env]
        process["noNewPrivileges"] = True
        process.pop("rlimits", None)
        if user is not None:
            process["user"] = {"uid": user, "gid": user}
        config["root"] = {"path": str(self.folder / "rootfs"), "readonly": read_only}
        (self.folder / "config.json").write_text(json.dumps(config))
        self.log = self.folder / "log"
        with open(self.log, "wb") as log:
            command = ["runc", "--root", self.folder / "state", "run", "--bundle", self.folder, self.id]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            subprocess.run(["runc", "--root", self.folder / "state", "kill", self.id, "KILL"], capture_output=True)
            self.process.wait(PATIENCE)
        subprocess.run(["runc", "--root", self.folder / "state", "delete", "--force", self.id], capture_output=True)
        shutil.rmtree(self.folder)

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def ready(self):
        """Waits for the line that testcontainers' modules wait for."""
        wait_until(lambda: READY in self.output() or self.process.poll() is not None)
        assert READY in self.output(), self.output()
        return self

    def exec(self, *arguments: str, input: str = "") -> subprocess.CompletedProcess:
        """`docker exec`, a health check in the form CMD, an exec probe."""
        command = ["runc", "--root", self.folder / "state", "exec", self.id, *arguments]
        return subprocess.run(command, input=input, capture_output=True, text=True, timeout=PATIENCE)

    def shell(self, line: str) -> subprocess.CompletedProcess:
        """A health check in the form CMD-SHELL, as `--health-cmd` gives it."""
        return self.exec("/bin/sh", "-c", line)

    def says(self, *arguments: str) -> str:
        said = self.exec(*arguments)
        assert said.returncode == 0, f"{arguments}: {said}"
        return said.stdout.rstrip("\n")

    def pid(self) -> int:
        state = run(["runc", "--root", self.folder / "state", "state", self.id])
        return json.loads(state)["pid"]

    def get_address(self, address: str) -> None:
        """Gives the container an address more, as a network of Docker gives it one."""
        ip = [self.folder / "rootfs/bin/busybox", "ip", "address", "add", f"{address}/32", "dev", "lo"]
        run(["nsenter", "--net", f"--target={self.pid()}", *ip])

    def stop(self, signal: str = "TERM") -> int:
        """`docker stop`: the status with which the container ends."""
        run(["runc", "--root", self.folder / "state", "kill", self.id, signal])
        return self.process.wait(PATIENCE)


def run(command: list) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def wait_until(condition):
    """Polls, because runc has no event for what a program writes."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "nothing came in time"
        time.sleep(0.02)


# The file.


@story_of_the_file
def the_archive_is_an_oci_image_and_docker_load_reads_the_same(image: Image):
    assert json.loads(image.files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    run(["umoci", "stat", "--image", f"{image.scratch / 'layout'}:tried"])
    oci = json.loads(run(["skopeo", "inspect", "--config", f"oci-archive:{image.archive}"]))
    docker = json.loads(run(["skopeo", "inspect", "--config", f"docker-archive:{image.archive}"]))
    assert oci == docker
    # skopeo checks every digest and size when it copies.
    run(["skopeo", "copy", "--quiet", f"docker-archive:{image.archive}", f"dir:{image.scratch / 'copied'}"])
    [listed] = json.loads(image.files["manifest.json"])
    assert listed["RepoTags"] == [
        f"redouble:{image.config['config']['Labels']['org.opencontainers.image.version']}",
        "redouble:latest",
    ]
    assert listed["Config"] == "blobs/" + image.manifest["config"]["digest"].replace(":", "/")


@story_of_the_file
def the_image_says_its_port_user_folder_health_command_and_labels(image: Image):
    config = image.config["config"]
    assert config["ExposedPorts"] == {"6379/tcp": {}}
    # Kubernetes lets `runAsNonRoot` pass for a number only.
    assert config["User"] == "999:999"
    assert config["WorkingDir"] == "/data" and config["StopSignal"] == "SIGTERM"
    assert config["Healthcheck"]["Test"] == ["CMD", "redis-cli", "ping"]
    labels = {name.removeprefix("org.opencontainers.image.") for name in config["Labels"]}
    assert {"title", "description", "version", "created", "licenses"} <= labels, labels


@story_of_the_file
def the_image_is_smaller_than_ten_megabytes(image: Image):
    assert image.archive.stat().st_size < 10_000_000, image.archive.stat().st_size


@story_of_the_file
def nothing_in_the_image_depends_on_when_and_by_whom_it_was_built(image: Image):
    times = set()
    with tarfile.open(image.archive) as tar:
        times |= {member.mtime for member in tar}
    layer = image.scratch / "layer"
    layer.write_bytes(image.files["blobs/" + image.manifest["layers"][0]["digest"].replace(":", "/")])
    with tarfile.open(layer) as tar:
        members = tar.getmembers()
        times |= {member.mtime for member in members}
    assert len(times) == 1, times
    assert {(member.uid, member.uname) for member in members} == {(0, ""), (999, "")}
    # The time of the packing would stand there.
    assert layer.read_bytes()[4:8] == bytes(4)
    builder = Path(__file__).resolve().parent.parent / "build_image.py"
    if builder.exists():
        version = image.config["config"]["Labels"]["org.opencontainers.image.version"]
        binary, again = image.bundle / "rootfs/usr/local/bin/redouble", image.scratch / "again"
        run([sys.executable, builder, binary, version, again])
        assert (again / image.archive.name).read_bytes() == image.archive.read_bytes()


# The container.


@story
def without_arguments_it_is_a_server_for_everybody_on_the_network(image: Image):
    with Container(image) as container:
        container.ready()
        assert container.says("redis-cli", "ping") == "PONG"
        assert container.says("id", "-u") == "999"
        assert container.says("whoami") == "redis"
        assert container.says("pwd") == "/data"
        assert container.says("sh", "-c", "touch /data/a /tmp/b && ls -1 /data") == "a"
        # Process 1 is the server, so that it gets the signals.
        assert "redis-server" in container.says("sh", "-c", "tr '\\0' ' ' < /proc/1/cmdline")
        # As for a container beside it, and as GitLab probes the exposed port of a service.
        container.get_address(OUTSIDE)
        assert container.says("redis-cli", "-h", OUTSIDE, "ping") == "PONG"
        assert container.shell(f"echo QUIT | nc {OUTSIDE} 6379").stdout == "+OK\n"
        assert container.stop() == 0, container.output()
        assert "bye bye" in container.output()


@story
def names_of_other_services_are_found(image: Image):
    # Docker writes /etc/hosts, and answers for the names of services on a network of compose.
    files = [
        ("/etc/hosts", "127.0.0.1 localhost\n127.0.0.1 by-table\n", 0o644),
        ("/etc/resolv.conf", "nameserver 127.0.0.1\n", 0o644),
    ]
    with Container(image, files=files) as container:
        container.ready()
        assert container.says("redis-cli", "-h", "by-table", "ping") == "PONG"
        names = ["nsenter", "--net", f"--target={container.pid()}", sys.executable, "-c", NAME_SERVER]
        with subprocess.Popen(names, stdout=subprocess.PIPE) as server:
            try:
                server.stdout.readline()
                assert container.says("redis-cli", "-h", "redis", "ping") == "PONG"
                assert container.says("redis-cli", "-u", "redis://redis:6379/1", "ping") == "PONG"
            finally:
                server.kill()
        said = container.exec("redis-cli", "-h", "nosuch.invalid", "ping")
        assert said.returncode == 1 and "Could not connect to Redis at nosuch.invalid:6379: " in said.stderr, said


# Answers every question for an address of IPv4 with 127.0.0.1, and those of IPv6 with nothing.
NAME_SERVER = """
import socket
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
print(flush=True)
while True:
    asked, client = server.recvfrom(512)
    end = asked.index(0, 12) + 5
    is_ipv4 = asked[end - 4 : end - 2] == bytes([0, 1])
    answer = b"\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\x3c\\0\\4\\x7f\\0\\0\\1" if is_ipv4 else b""
    head = asked[:2] + b"\\x81\\x80\\0\\1\\0" + bytes([is_ipv4]) + b"\\0\\0\\0\\0"
    server.sendto(head + asked[12:end] + answer, client)
"""


HEALTH = [
    "redis-cli ping",
    "redis-cli ping | grep PONG",
    "redis-cli ping | grep -q PONG",
    "redis-cli ping | grep -qx PONG",
    "redis-cli ping || exit 1",
    "redis-cli ping | grep PONG || exit 1",
    "redis-cli -h localhost -p 6379 ping",
    "redis-cli -h 127.0.0.1 ping",
    'redis-cli -a "$REDIS_PASSWORD" ping | grep PONG',
    "redis-cli --no-auth-warning -a $REDIS_PASSWORD ping | grep -q PONG",
    "REDISCLI_AUTH=$REDIS_PASSWORD redis-cli ping | grep PONG",
    '[ "$(redis-cli ping)" = "PONG" ]',
    'test "$(redis-cli ping)" = PONG',
    '[ $(redis-cli ping) = "PONG" ] && exit 0 || exit 1',
    "timeout 3 redis-cli ping",
    "redis-cli --raw incr ping",
    "redis-cli -e set health ok",
    "redis-cli info replication | grep role:master",
    "valkey-cli ping",
    "printf 'PING\\r\\nQUIT\\r\\n' | nc 127.0.0.1 6379 | grep PONG",
    "exec redis-cli ping",
]


@story
def health_commands_work_with_and_without_a_shell(image: Image):
    with Container(image, env=["REDIS_PASSWORD=secret"]) as container:
        container.ready()
        test = image.config["config"]["Healthcheck"]["Test"]
        assert container.exec(*test[1:]).returncode == 0
        for line in HEALTH:
            said = container.shell(line)
            assert said.returncode == 0, f"{line}: {said}"


@story
def a_server_that_is_not_there_is_unhealthy(image: Image):
    with Container(image, ["sh", "-c", "echo Ready to accept connections; sleep 60"]) as container:
        container.ready()
        assert container.exec("redis-cli", "ping").returncode == 1
        for line in HEALTH:
            assert container.shell(line).returncode != 0, line
        said = container.shell("redis-cli ping")
        assert said.stderr == "Could not connect to Redis at 127.0.0.1:6379: Connection refused\n", said


# What compose files, services and people give as command and entrypoint, and a setting that shows it arrived.
COMMANDS = [
    ([], {}, "port", "6379"),
    (["redis-server"], {}, "port", "6379"),
    (["redis-server"], {"env": ["REDOUBLE_ARGS=--maxmemory 7mb"]}, "maxmemory", "7340032"),
    (["redis-server", "--appendonly", "yes"], {}, "appendonly", "yes"),
    (["redis-server", "--save", "60", "1", "--loglevel", "warning"], {}, "save", "60 1"),
    (["--save", "60", "1"], {}, "save", "60 1"),
    (["--maxmemory", "256mb", "--maxmemory-policy", "allkeys-lru"], {}, "maxmemory-policy", "allkeys-lru"),
    (["redis-server", "--maxmemory 256mb"], {}, "maxmemory", "268435456"),
    (["redis-server", "/usr/local/etc/redis/redis.conf"], {}, "maxmemory", "7340032"),
    (["/usr/local/etc/redis/redis.conf", "--databases", "3"], {}, "databases", "3"),
    (["sh", "-c", "exec redis-server --maxmemory $LIMIT"], {"env": ["LIMIT=7mb"]}, "maxmemory", "7340032"),
    (["/bin/sh", "-c", "redis-server --maxmemory ${LIMIT:-7mb}"], {}, "maxmemory", "7340032"),
    (
        ["bash", "-c", "[[ -n $LIMIT ]] && redis-server --maxmemory $LIMIT"],
        {"env": ["LIMIT=7mb"]},
        "maxmemory",
        "7340032",
    ),
    (None, {"env": ["REDOUBLE_ARGS=--maxmemory 7mb --locks 'a b*'"]}, "maxmemory", "7340032"),
    (None, {"env": ["REDOUBLE_ARGS=--locks 'a b*' --locks c"]}, "locks", '"a b*" "c"'),
    (None, {"env": ["REDOUBLE_ARGS=--save '' --proc-title-template a;b>/tmp/x"]}, "proc-title-template", "a;b>/tmp/x"),
    (None, {"env": ["VALKEY_EXTRA_FLAGS=--maxmemory 7mb"]}, "maxmemory", "7340032"),
    (["--maxmemory", "7mb"], {"entrypoint": ["redis-server"]}, "maxmemory", "7340032"),
    (["--maxmemory", "7mb"], {"entrypoint": ["/usr/local/bin/docker-entrypoint.sh"]}, "maxmemory", "7340032"),
    (None, {"entrypoint": ["redis-server"]}, "bind", "* -::*"),
    (["valkey-server", "--maxmemory", "7mb"], {}, "maxmemory", "7340032"),
    (["redouble", "--compat", "redis-6.2"], {}, "compat", "redis-6.2"),
]


@story
def commands_and_entrypoints_of_compose_files_start_the_server(image: Image):
    files = [("/usr/local/etc/redis/redis.conf", "maxmemory 7mb\n", 0o644)]
    for arguments, options, name, value in COMMANDS:
        with Container(image, arguments, files=files, **options) as container:
            wait_until(lambda: container.exec("redis-cli", "ping").returncode == 0)
            said = container.says("redis-cli", "config", "get", name)
            assert value in said.splitlines(), f"{arguments} {options}: {said}"


@story
def a_password_is_asked_for_and_health_commands_know_it(image: Image):
    arguments = ["redis-server", "--requirepass", "se cret", "--appendonly", "yes"]
    with Container(image, arguments, env=["REDIS_PASSWORD=se cret"]) as container:
        container.ready()
        assert container.says("redis-cli", "ping") == "NOAUTH Authentication required."
        assert container.shell("redis-cli ping | grep PONG").returncode == 1
        assert container.shell('redis-cli -a "$REDIS_PASSWORD" ping | grep PONG').returncode == 0
        assert container.shell("REDISCLI_AUTH=$REDIS_PASSWORD redis-cli ping | grep PONG").returncode == 0


@story
def the_words_of_redouble_need_no_name_in_front(image: Image):
    def of(*arguments: str):
        with Container(image, list(arguments)) as container:
            return container.process.wait(PATIENCE), container.output()

    # The command finds the server of its own, not one of the network.
    status, said = of("run", "--", "sh", "-c", "redis-cli -u $REDIS_URL set lock:1 a NX PX 1000; echo $REDIS_HOST")
    assert (status, "OK" in said, "127.0.0.1" in said) == (0, True, True), said
    assert of("redis-cli", "--version")[1].startswith("redis-cli 7.")
    assert of("redis-server", "--version")[1].startswith("Redis server v=")
    status, said = of("redouble", "help", "run")
    assert status == 0 and "redouble run" in said, said
    status, said = of("nosuch-program")
    assert status == 127 and "nosuch-program" in said, (status, said)


# Kubernetes.


@story
def it_runs_on_a_read_only_root_under_any_user(image: Image):
    for user in [999, 1000, 65534, 1000680000]:
        with Container(image, user=user, read_only=True) as container:
            container.ready()
            # An exec probe has no shell.
            assert container.exec("redis-cli", "ping").returncode == 0
            assert container.says("redis-cli", "set", "a", "1") == "OK"
            assert container.stop() == 0
    with Container(image, user=0) as container:
        container.ready()
        assert container.stop("INT") == 0


# testcontainers: a row of the table in docs/image.md each.


@story
def testcontainers_for_go(image: Image):
    port_check = """true && (
        cat /proc/net/tcp* | awk '{print $2}' | grep -i :18eb ||
        nc -vz -w 1 localhost 6379 ||
        /bin/sh -c '</dev/tcp/localhost/6379'
    )
    """
    conf = [("/usr/local/redis.conf", "maxmemory 7mb\nbind * -::*\n", 0o755)]
    for arguments, files in [
        (None, []),
        (["--loglevel", "verbose"], []),
        (["--save", "10", "1"], []),
        (["/usr/local/redis.conf"], conf),
        (["/usr/local/redis.conf", "--loglevel", "verbose", "--save", "10", "1"], conf),
    ]:
        with Container(image, arguments, files=files) as container:
            container.ready()
            assert "* " + READY in container.output()
            assert container.shell(port_check).returncode == 0
            assert container.says("redis-cli", "set", "a", "1") == "OK"
    # The module of Valkey replaces the entrypoint.
    with Container(image, ["--loglevel", "verbose"], entrypoint=["valkey-server"]) as container:
        container.ready()
        assert "* " + READY in container.output()
        container.get_address(OUTSIDE)
        assert container.says("valkey-cli", "-h", OUTSIDE, "ping") == "PONG"


@story
def testcontainers_for_node(image: Image):
    # The module gives a flag and its value as one argument.
    arguments = ["redis-server", "--loglevel", "verbose", "--requirepass secret", "--save 1 1 ", "--appendonly yes"]
    # It feeds redis-cli with a script that asks for bash, and uses its tests and substitutions.
    lines = [
        "#!/usr/bin/env bash",
        "set -e",
        "redis-cli $([[ -n $1 ]] && echo -a $1) < /tmp/import.redis",
        "echo Imported",
    ]
    commands = 'SET user:1 \'{"name": "A B"}\'\nINCR count\n'
    files = [("/tmp/import.sh", "\n".join(lines), 0o777), ("/tmp/import.redis", commands, 0o666)]
    with Container(image, arguments, files=files) as container:
        container.ready()
        said = container.exec("/tmp/import.sh", "secret")
        assert said.returncode == 0 and "ERR" not in said.stdout and "Imported" in said.stdout, said
        assert container.says("redis-cli", "--no-auth-warning", "-a", "secret", "get", "user:1") == '{"name": "A B"}'
        # The module takes one of three checks for enough.
        assert container.shell("cat /proc/net/tcp* | awk '{print $2}' | grep -i :18eb").returncode == 0
    with Container(image) as container:
        container.ready()
        assert "connected_clients:1" in container.says("redis-cli", "info", "clients")


@story
def testcontainers_for_java(image: Image):
    conf = [("/data/redis.conf", "notify-keyspace-events KEA\n", 0o644)]
    with Container(image, ["redis-server", "/data/redis.conf"], files=conf) as container:
        container.ready()
        assert container.says("redis-cli", "config", "get", "notify-keyspace-events").endswith("AKE")
        # What a container without a wait strategy of its own waits for.
        port_check = (
            "while true; do ( true  &&  (grep -i ':0*18eb' /proc/net/tcp* || nc -vz -w 1 localhost 6379 || "
            "/bin/bash -c '</dev/tcp/localhost/6379') ) && exit 0 || sleep 0.1; done"
        )
        assert container.shell(port_check).returncode == 0


@story
def testcontainers_for_python_rust_and_dotnet(image: Image):
    # Python: a PING from outside. Rust: the line on standard output.
    with Container(image, ["redis-server", "--requirepass", "secret"]) as container:
        container.ready()
        assert container.says("redis-cli", "--no-auth-warning", "-a", "secret", "ping") == "PONG"
    with Container(image, ["valkey-server", "--requirepass", "secret"]) as container:
        container.ready()
        assert container.exec("valkey-cli", "-a", "secret", "ping").returncode == 0
    # .NET: redis-cli ping, and scripts that it copies below /tmp.
    with Container(image, files=[("/tmp/b0/script.lua", "return redis.call('PING')", 0o644)]) as container:
        wait_until(lambda: container.exec("redis-cli", "ping").returncode == 0)
        assert container.says("redis-cli", "--eval", "/tmp/b0/script.lua", "0") == "PONG"
        check = (
            "true && (grep -i ':0*18EB' /proc/net/tcp* || nc -vz -w 1 localhost 6379 || "
            "/bin/bash -c '</dev/tcp/localhost/6379')"
        )
        assert container.shell(check).returncode == 0
    # Rust, Valkey: its configuration file and its variable.
    files = [("/usr/local/etc/valkey/valkey.conf", "maxmemory 7mb\n", 0o644)]
    arguments = ["valkey-server", "/usr/local/etc/valkey/valkey.conf"]
    with Container(image, arguments, files=files, env=["VALKEY_EXTRA_FLAGS=--databases 3"]) as container:
        container.ready()
        assert container.says("valkey-cli", "config", "get", "maxmemory").endswith("7340032")
        assert container.says("valkey-cli", "config", "get", "databases").endswith("3")


def install_tools() -> list[str]:
    """Installs what is missing, and returns what still is."""
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing and shutil.which("apt-get"):
        for command in [["update"], ["install", "--yes", "--no-install-recommends", *missing]]:
            env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
            subprocess.run(["apt-get", "-qq", *command], env=env, stdout=subprocess.DEVNULL)
    return [tool for tool in missing if not shutil.which(tool)]


def main() -> int:
    if len(sys.argv) not in (2, 4) or sys.argv[2:3] not in ([], ["--"]):
        raise SystemExit("usage: run.py FOLDER [-- NAME]")
    os.environ["PATH"] += ":/usr/sbin:/usr/bin:/sbin:/bin"
    images = sorted(Path(sys.argv[1]).rglob("redouble-*-image-*.tar"))
    images = [image for image in images if {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine] in image.name]
    if len(images) != 1:
        raise SystemExit(f"one image for this machine is expected in {sys.argv[1]}, not {len(images)}")
    missing = install_tools()
    if missing:
        raise SystemExit("the image is tried with " + ", ".join(TOOLS) + "; there is no " + ", ".join(missing))
    failed = 0
    with tempfile.TemporaryDirectory(prefix="redouble-image-") as scratch:
        image = Image(images[0], Path(scratch))
        for function in stories:
            name = function.__name__.replace("_", " ")
            if len(sys.argv) == 4 and sys.argv[3] not in name:
                continue
            if function not in of_the_file and not is_root():
                print(f"skipped {name}: containers need root", flush=True)
                continue
            try:
                function(image)
                print(f"ok {name}", flush=True)
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                failed += 1
                line = traceback.extract_tb(error.__traceback__)[-1].line
                print(f"FAILED {name}\n    {line}\n    {error!r}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
