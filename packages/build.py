#!/usr/bin/env python3
"""Packs the release build into target/packages. `make packages` builds the binary, then calls this.

    python3 packages/build.py                     every part
    python3 packages/build.py python sums         these parts only
    python3 packages/build.py --binary FILE       packs another binary than target/release/redouble
    python3 packages/build.py --out FOLDER        packs into another folder

The parts, in this order: archive, python, node, image, sbom, sums. Needs Python 3.10 and cargo, and nothing else.
"""

import argparse
import gzip
import hashlib
import importlib.util
import io
import os
import sys
import tarfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))

import package  # noqa: E402
import sbom  # noqa: E402
from platform_of import platform_of  # noqa: E402

SUMS = "SHA256SUMS"
BESIDE_THE_BINARY = ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"]


def archive(binary: Path, version: str, out: Path) -> list[Path]:
    """The binary in a folder with the licences, as cargo-binstall and people expect it."""
    name = f"redouble-{version}-{platform_of(binary)}"
    path = out / f"{name}.tar.gz"
    # The same input gives the same bytes: no times, no owners.
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for source in [binary, *(package.ROOT / name for name in BESIDE_THE_BINARY)]:
                data = source.read_bytes()
                member = tarfile.TarInfo(f"{name}/{'redouble' if source == binary else source.name}")
                member.size = len(data)
                member.mode = 0o755 if source == binary else 0o644
                tar.addfile(member, io.BytesIO(data))
    return [path]


def of_module(path: str):
    """The function `build` of a module in this folder."""

    def build(binary: Path, version: str, out: Path) -> list[Path]:
        file = FOLDER / path
        spec = importlib.util.spec_from_file_location(file.stem, file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.build(binary, version, out)

    return build


def sums(binary: Path, version: str, out: Path) -> list[Path]:
    """The SHA-256 sums of all files of the folder, in the format of `sha256sum --check`."""
    path = out / SUMS
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in built(out) if file != path]
    path.write_text("".join(lines))
    return [path]


def built(out: Path) -> list[Path]:
    """The files of a folder. A name that begins with a dot is no package's: tools are kept there."""
    return sorted(file for file in out.iterdir() if file.is_file() and not file.name.startswith("."))


PARTS = {
    "archive": archive,
    "python": of_module("python/build_wheel.py"),
    "node": of_module("node/build_tarballs.py"),
    "image": of_module("image/build_image.py"),
    "sbom": sbom.build,
    "sums": sums,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Packs the release build into target/packages.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all of them by default")
    parser.add_argument("--binary", type=Path, default=package.target() / "release" / "redouble")
    parser.add_argument("--out", type=Path, default=package.target() / "packages")
    chosen = parser.parse_args()
    for part in chosen.parts:
        if part not in PARTS:
            parser.error(f"there is no part {part}; there are {', '.join(PARTS)}")
    if chosen.parts == ["sums"]:
        # Packages of several platforms, built elsewhere, have one list of sums.
        sums(chosen.binary, "", chosen.out)
        return
    if not chosen.binary.is_file():
        parser.error(f"there is no {chosen.binary}: `make build` builds it")
    platform = platform_of(chosen.binary)
    if platform.os == "linux" and not platform.static:
        parser.error(
            f"{chosen.binary} needs shared libraries, so it would not run everywhere: "
            "`make build` links it statically where the C library's archive is installed"
        )
    version = package.about()["version"]
    chosen.out.mkdir(parents=True, exist_ok=True)
    if not chosen.parts:
        # What an older version left there would be published, too.
        for file in built(chosen.out):
            file.unlink()
    for name in chosen.parts or PARTS:
        if name == "image" and platform.os != "linux":
            continue
        for path in PARTS[name](chosen.binary, version, chosen.out):
            print(f"{path.stat().st_size:>10}  {os.path.relpath(path)}")


if __name__ == "__main__":
    main()
