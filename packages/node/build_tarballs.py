#!/usr/bin/env python3
"""Packs the npm packages: `redouble`, and `redouble-PLATFORM` with the binary.

    python3 packages/node/build_tarballs.py BINARY VERSION OUT

Needs npm. It runs no script and asks no registry.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PACKAGES = FOLDER.parent
sys.path.insert(0, str(PACKAGES))

import package  # noqa: E402
from platform_of import platform_of  # noqa: E402

LICENCES = ["LICENSE-MIT", "LICENSE-APACHE"]
NODE_ARCH = {"x86_64": "x64", "aarch64": "arm64"}


def links(about: dict) -> dict:
    """The addresses of Cargo.toml, in npm's words."""
    made = {}
    if about.get("repository"):
        made["repository"] = {"type": "git", "url": f"git+{about['repository']}.git"}
    if about.get("homepage") or about.get("repository"):
        made["homepage"] = about.get("homepage") or about["repository"]
    return made


def pack(folder: Path, out: Path) -> Path:
    command = ["npm", "pack", "--json", "--ignore-scripts", "--pack-destination", str(out)]
    told = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE).stdout
    found = json.loads(told)
    # npm 11.19 names the packages; older ones list them.
    [packed] = found.values() if isinstance(found, dict) else found
    return out / packed["filename"]


def stage(source: Path, folder: Path, changes: dict) -> None:
    """Copies a package's files, and fills in what Cargo.toml says."""
    shutil.copytree(source, folder)
    manifest = folder / "package.json"
    described = json.loads(manifest.read_text()) | changes
    manifest.write_text(json.dumps(described, indent=2) + "\n")
    for name in LICENCES:
        shutil.copy(package.ROOT / name, folder)


def build(binary: Path, version: str, out: Path) -> list[Path]:
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    about = links(package.about())
    platform = platform_of(binary)
    arch = NODE_ARCH[platform.arch]
    name = f"redouble-{platform.os}-{arch}"
    with tempfile.TemporaryDirectory() as temporary:
        program = Path(temporary) / "platform"
        changes = {"name": name, "version": version, "os": [platform.os], "cpu": [arch]} | about
        stage(FOLDER / "platform", program, changes)
        (program / "bin").mkdir()
        shutil.copyfile(binary, program / "bin" / "redouble")
        (program / "bin" / "redouble").chmod(0o755)
        main = Path(temporary) / "redouble"
        named = json.loads((FOLDER / "redouble" / "package.json").read_text())["optionalDependencies"]
        if name not in named:
            raise SystemExit(f"{name} is no optional dependency in packages/node/redouble/package.json")
        stage(FOLDER / "redouble", main, {"version": version, "optionalDependencies": dict.fromkeys(named, version)} | about)
        return [pack(main, out), pack(program, out)]


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    for path in build(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])):
        print(path)
