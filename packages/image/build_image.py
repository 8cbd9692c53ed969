#!/usr/bin/env python3
"""Packs a static binary as a container image, without a daemon.

    python3 packages/image/build_image.py BINARY VERSION OUT

writes OUT/redouble-VERSION-image-ARCH.tar. This file is an OCI archive and what `docker load` reads in one: it has the
index of the one and the manifest of the other, over the same layer and the same configuration. The same input gives the
same bytes; SOURCE_DATE_EPOCH says when the image was made, 1970 otherwise.

The shell and its tools are busybox: that of /bin/busybox if it is static, else Debian's package, or what BUSYBOX names.
"""

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from datetime import datetime, timezone
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))

import package  # noqa: E402
from platform_of import platform_of  # noqa: E402

# As in the image of Redis, so that volumes and `user: redis` stay as they are.
USER = 999

# The names under which the binary is found: what compose files, health checks and testcontainers call.
NAMES = ["redis-server", "redis-cli", "valkey-server", "valkey-cli"]

# Tools of busybox: what health checks, init scripts and people with `docker exec` use.
TOOLS = """
[ [[ ash awk base64 basename cat chgrp chmod chown clear cmp cp cut date dd df diff dirname du echo egrep env expr
false fgrep find free fold grep gunzip gzip head hexdump hostname id ip kill killall less ln ls md5sum mkdir mkfifo
mktemp more mv nc netstat nl nproc nslookup od paste pidof ping printf ps pwd readlink realpath rm rmdir sed seq
setsid sh sha256sum sleep sort split stat strings stty sync tac tail tar tee telnet test time timeout top touch tr
true tty uname uniq unlink uptime usleep vi wc wget which who whoami xargs xxd yes zcat
""".split()

# Scripts that ask for bash get busybox's shell, which knows [[ ]], $(...), ${a/b/c} and arithmetic, but no arrays.
BASH = '#!/bin/sh\nexec /bin/sh "$@"\n'

MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}

SECOND = 1_000_000_000


def build(binary: Path, version: str, out: Path) -> list[Path]:
    platform = platform_of(binary)
    if platform.os != "linux" or not platform.static:
        raise SystemExit(f"{binary} is no static program for Linux, so an image without a C library cannot run it")
    made = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    architecture = MACHINES[platform.arch]
    with tempfile.TemporaryDirectory() as scratch:
        busybox, notices = find_busybox(platform, Path(scratch))
        layer = layer_of(binary, busybox.read_bytes(), notices, made)
    packed = gzip.compress(layer, 9, mtime=0)
    created = datetime.fromtimestamp(made, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    labels = labels_of(version, created)
    config = encode(configuration(architecture, layer, labels, created))
    manifest = encode(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor("application/vnd.oci.image.config.v1+json", config),
            "layers": [descriptor("application/vnd.oci.image.layer.v1.tar+gzip", packed)],
            "annotations": labels,
        }
    )
    listed = descriptor("application/vnd.oci.image.manifest.v1+json", manifest) | {
        "platform": {"architecture": architecture, "os": "linux"},
        "annotations": {
            "org.opencontainers.image.ref.name": version,
            # The name that containerd, and with it newer versions of Docker, gives the image.
            "io.containerd.image.name": f"docker.io/library/redouble:{version}",
        },
    }
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [listed]}
    # The manifest of `docker load`; OCI passes over the file.
    docker = [
        {
            "Config": blob_path(config),
            "RepoTags": [f"redouble:{version}", "redouble:latest"],
            "Layers": [blob_path(packed)],
        }
    ]
    path = out / f"redouble-{version}-image-{architecture}.tar"
    out.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        add_file(tar, "oci-layout", encode({"imageLayoutVersion": "1.0.0"}), 0o644, made)
        add_file(tar, "index.json", encode(index), 0o644, made)
        add_file(tar, "manifest.json", encode(docker), 0o644, made)
        add_folder(tar, "blobs", 0o755, made)
        add_folder(tar, "blobs/sha256", 0o755, made)
        for blob in sorted([config, manifest, packed], key=digest):
            add_file(tar, blob_path(blob), blob, 0o644, made)
    return [path]


def configuration(architecture: str, layer: bytes, labels: dict, created: str) -> dict:
    return {
        "created": created,
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "ExposedPorts": {"6379/tcp": {}},
            "Env": [
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                # The server listens on every address, without protected mode.
                "REDOUBLE_IN_CONTAINER=yes",
            ],
            "Entrypoint": ["docker-entrypoint.sh"],
            "Cmd": ["redis-server"],
            "WorkingDir": "/data",
            "Labels": labels,
            "StopSignal": "SIGTERM",
            # OCI reserves the field for Docker; others pass over it.
            "Healthcheck": {
                "Test": ["CMD", "redis-cli", "ping"],
                "Interval": SECOND,
                "Timeout": 3 * SECOND,
                "StartPeriod": 1 * SECOND,
                "Retries": 3,
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
        "history": [{"created": created, "created_by": "packages/image/build_image.py"}],
    }


def labels_of(version: str, created: str) -> dict:
    about = package.about()
    prefix = "org.opencontainers.image"
    labels = {
        f"{prefix}.title": "redouble",
        f"{prefix}.description": about["description"],
        f"{prefix}.version": version,
        f"{prefix}.created": created,
        # That of the binary and that of busybox.
        f"{prefix}.licenses": f"({about['license']}) AND GPL-2.0-only",
    }
    for label, field in {"url": "homepage", "source": "repository", "documentation": "documentation"}.items():
        if about.get(field):
            labels[f"{prefix}.{label}"] = about[field]
    return labels


def layer_of(binary: Path, busybox: bytes, notices: dict[str, bytes], made: int) -> bytes:
    """The one layer, as a tar file."""
    entrypoint = (HERE / "docker-entrypoint.sh").read_bytes()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for folder in ["bin", "etc", "run", "usr", "usr/bin", "usr/local", "usr/local/bin", "usr/local/etc", "var"]:
            add_folder(tar, folder, 0o755, made)
        add_file(tar, "bin/busybox", busybox, 0o755, made)
        for tool in TOOLS:
            add_link(tar, f"bin/{tool}", "busybox", made)
        add_file(tar, "bin/bash", BASH.encode(), 0o755, made)
        add_link(tar, "usr/bin/env", "../../bin/busybox", made)
        add_link(tar, "var/run", "../run", made)
        add_file(tar, "usr/local/bin/redouble", binary.read_bytes(), 0o755, made)
        for name in NAMES:
            add_link(tar, f"usr/local/bin/{name}", "redouble", made)
        add_file(tar, "usr/local/bin/docker-entrypoint.sh", entrypoint, 0o755, made)
        # Programs look for the user by name here, as `user: redis` does.
        users = f"root:x:0:0:root:/root:/bin/sh\nredis:x:{USER}:{USER}::/data:/bin/sh\n"
        add_file(tar, "etc/passwd", users.encode(), 0o644, made)
        add_file(tar, "etc/group", f"root:x:0:\nredis:x:{USER}:\n".encode(), 0o644, made)
        add_file(tar, "etc/nsswitch.conf", b"hosts: files dns\n", 0o644, made)
        add_folder(tar, "tmp", 0o1777, made)
        add_folder(tar, "root", 0o700, made)
        add_folder(tar, "data", 0o755, made, owner=USER)
        notices = notices | {
            f"redouble/{name}": (ROOT / name).read_bytes() for name in ["LICENSE-APACHE", "LICENSE-MIT"]
        }
        for folder in ["usr/share", "usr/share/doc", *(f"usr/share/doc/{Path(name).parent}" for name in notices)]:
            if folder not in tar.getnames():
                add_folder(tar, folder, 0o755, made)
        for name, text in sorted(notices.items()):
            add_file(tar, f"usr/share/doc/{name}", text, 0o644, made)
    return buffer.getvalue()


def find_busybox(platform, scratch: Path) -> tuple[Path, dict[str, bytes]]:
    """A static busybox for the platform, with what its licence wants to be passed on."""
    doc = Path("/usr/share/doc/busybox-static")
    named = os.environ.get("BUSYBOX")
    found = Path(named or "/bin/busybox")
    if not (found.is_file() and platform_of(found) == platform and (named or doc.is_dir())):
        if named:
            raise SystemExit(f"BUSYBOX={named} is no static program for {platform}")
        if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
            raise SystemExit("no static busybox: install busybox-static, or name one in BUSYBOX")
        debian = "busybox-static:" + MACHINES[platform.arch]
        fetched = subprocess.run(["apt-get", "download", "-q", debian], cwd=scratch, capture_output=True, text=True)
        archives = list(scratch.glob("*.deb"))
        if fetched.returncode != 0 or not archives:
            raise SystemExit(f"no static busybox: apt-get download {debian}: {fetched.stderr.strip()}")
        subprocess.run(["dpkg-deb", "--extract", archives[0], scratch], check=True)
        found, doc = scratch / "bin/busybox", scratch / "usr/share/doc/busybox-static"
    licence = Path("/usr/share/common-licenses/GPL-2")
    notices = {"busybox/SOURCE": SOURCE.encode()}
    for name, path in {"busybox/copyright": doc / "copyright", "busybox/GPL-2": licence}.items():
        if path.is_file():
            notices[name] = path.read_bytes()
    return found, notices


SOURCE = """\
/bin/busybox is a program of its own, under the GNU General Public License, version 2. It is Debian's package
busybox-static, unchanged; `busybox` without arguments names its version. Its source is Debian's source package busybox
of that version:

    apt-get source busybox
"""


def add_file(tar: tarfile.TarFile, name: str, data: bytes, mode: int, made: int) -> None:
    member = member_of(name, mode, made)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


def add_folder(tar: tarfile.TarFile, name: str, mode: int, made: int, owner: int = 0) -> None:
    member = member_of(name, mode, made, owner)
    member.type = tarfile.DIRTYPE
    tar.addfile(member)


def add_link(tar: tarfile.TarFile, name: str, target: str, made: int) -> None:
    member = member_of(name, 0o777, made)
    member.type, member.linkname = tarfile.SYMTYPE, target
    tar.addfile(member)


def member_of(name: str, mode: int, made: int, owner: int = 0) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.mode, member.mtime, member.uid, member.gid = mode, made, owner, owner
    return member


def encode(value) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def blob_path(data: bytes) -> str:
    return "blobs/" + digest(data).replace(":", "/")


def descriptor(kind: str, data: bytes) -> dict:
    return {"mediaType": kind, "digest": digest(data), "size": len(data)}


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit("usage: build_image.py BINARY VERSION OUT")
    for written in build(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])):
        print(written)
