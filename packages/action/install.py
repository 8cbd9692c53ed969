"""The step that brings redouble: what `binary` names, a release for this runner, or a build of the action's source."""

import hashlib
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
from pathlib import Path

from github import fail, give, output, setting

ROOT = Path(__file__).resolve().parent.parent.parent

MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
SYSTEMS = {"Linux": "linux", "Darwin": "darwin"}


def main() -> None:
    version = setting("VERSION")
    if setting("BINARY"):
        binary = given(Path(setting("BINARY")))
    elif version == "source":
        binary = built()
    else:
        binary = downloaded(version.removeprefix("v") or own_version())
    try:
        said = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        fail(f"{binary} does not run here: {error}")
    print(said.stdout.strip())
    output("binary", str(binary))
    give("GITHUB_PATH", f"{binary.parent}\n")
    give("GITHUB_ENV", f"REDOUBLE_BINARY={binary}\n")


def given(path: Path) -> Path:
    path = path.absolute()
    if not path.is_file():
        fail(f"binary: there is no {path}")
    if path.name == "redouble":
        return path
    # It is found by its name, too.
    link = folder() / "redouble"
    link.unlink(missing_ok=True)
    link.symlink_to(path)
    return link


def built() -> Path:
    cargo = shutil.which("cargo")
    if not cargo:
        fail("version: source needs cargo; actions-rust-lang/setup-rust-toolchain installs it")
    target = folder() / "target"
    command = [cargo, "build", "--release", "--locked", "--bin", "redouble", "--target-dir", str(target)]
    if subprocess.run(command, cwd=ROOT).returncode != 0:
        fail("cargo cannot build redouble")
    return target / "release" / "redouble"


def own_version() -> str:
    """The version of the source that the action is a part of."""
    found = re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    if not found:
        fail("Cargo.toml says no version; the input version does")
    return found[1]


def downloaded(version: str) -> Path:
    system, machine = SYSTEMS.get(platform.system()), MACHINES.get(platform.machine().lower())
    if not system or not machine:
        fail(f"redouble runs on Linux and macOS, x86_64 and arm64; this is {platform.system()} on {platform.machine()}")
    name = f"redouble-{version}-{machine}-{system}"
    place = folder() / name
    if (place / "redouble").is_file():
        return place / "redouble"
    server, repository = os.environ.get("GITHUB_SERVER_URL", "https://github.com"), os.environ["ACTION_REPOSITORY"]
    address = f"{server}/{repository}/releases/download/v{version}"
    archive = fetched(f"{address}/{name}.tar.gz")
    sums = dict(reversed(line.split(maxsplit=1)) for line in fetched(f"{address}/SHA256SUMS").decode().splitlines())
    expected, found = sums.get(f"{name}.tar.gz"), hashlib.sha256(archive).hexdigest()
    if found != expected:
        fail(f"{name}.tar.gz is not what SHA256SUMS says: {found}, not {expected}")
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        # The sum vouches for the archive; only the one file is taken out all the same.
        data = tar.extractfile(f"{name}/redouble").read()
    place.mkdir(parents=True, exist_ok=True)
    binary = place / "redouble"
    binary.write_bytes(data)
    binary.chmod(0o755)
    return binary


def fetched(address: str) -> bytes:
    request = urllib.request.Request(address)
    if setting("TOKEN"):
        # Not sent on to where a release's files are stored.
        request.add_unredirected_header("Authorization", f"Bearer {setting('TOKEN')}")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read()
    except (urllib.error.URLError, OSError) as error:
        fail(f"{address}: {error}. With version: source, cargo builds it; with binary: PATH, nothing is downloaded")


def folder() -> Path:
    """A folder that lasts as long as the job."""
    place = Path(os.environ.get("RUNNER_TEMP") or "/tmp").absolute() / "redouble"
    place.mkdir(parents=True, exist_ok=True)
    return place


if __name__ == "__main__":
    sys.exit(main())
