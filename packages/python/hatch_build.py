"""Tells hatchling what Cargo.toml knows, and packs the program that `REDOUBLE_BINARY` names.

Without `REDOUBLE_BINARY` the wheel has no program, and can be installed everywhere. So it is for an editable
installation, and for a machine for which there is no other wheel: there, the package says what to do.
"""

import os
import re
import struct
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


class CargoMetadata(MetadataHookInterface):
    def update(self, metadata: dict) -> None:
        package = (Path(self.root) / "../../Cargo.toml").read_text(encoding="utf-8").partition("\n[")[0]
        said = dict(re.findall(r'^(version|repository|homepage|documentation) = "(.+)"$', package, re.MULTILINE))
        metadata["version"] = os.environ.get("REDOUBLE_VERSION") or said["version"]
        metadata["urls"] = {name.capitalize(): url for name, url in said.items() if name != "version"}


class PackProgram(BuildHookInterface):
    def initialize(self, version: str, build_data: dict) -> None:
        program = os.environ.get("REDOUBLE_BINARY")
        if not program or version == "editable":
            return
        build_data["tag"] = f"py3-none-{platforms(Path(program).read_bytes())}"
        build_data["pure_python"] = False
        build_data["shared_scripts"][os.path.abspath(program)] = "redouble"


def platforms(program: bytes) -> str:
    """The platform tags on which a program runs, from its own headers."""
    if program[:4] == b"\x7fELF":
        return linux(program)
    if program[:4] == b"\xcf\xfa\xed\xfe":
        return macos(program)
    raise ValueError("the program is neither for Linux nor for macOS")


def linux(program: bytes) -> str:
    machine = {62: "x86_64", 183: "aarch64"}[struct.unpack_from("<H", program, 18)[0]]
    (start,) = struct.unpack_from("<Q", program, 32)
    size, count = struct.unpack_from("<HH", program, 54)
    kinds = [struct.unpack_from("<I", program, start + size * number)[0] for number in range(count)]
    interpreter = 3
    if interpreter in kinds:
        # It needs the C library of the machine that it was built on. The registry refuses this tag.
        return f"linux_{machine}"
    # A static program needs no C library, so it runs beside any. manylinux2014 is the name by which old installers know
    # manylinux_2_17; older tags are for programs that need even less of glibc, and no Python of today asks for them.
    return f"manylinux_2_17_{machine}.manylinux2014_{machine}.musllinux_1_1_{machine}"


def macos(program: bytes) -> str:
    machine = {0x01000007: "x86_64", 0x0100000C: "arm64"}[struct.unpack_from("<I", program, 4)[0]]
    (count,) = struct.unpack_from("<I", program, 16)
    at = 32
    for _ in range(count):
        command, size = struct.unpack_from("<II", program, at)
        # The oldest system on which it runs stands in LC_VERSION_MIN_MACOSX or LC_BUILD_VERSION.
        place = {0x24: at + 8, 0x32: at + 12}.get(command)
        if place is not None:
            (oldest,) = struct.unpack_from("<I", program, place)
            major, minor = oldest >> 16, oldest >> 8 & 0xFF
            return f"macosx_{major}_{minor if major < 11 else 0}_{machine}"
        at += size
    raise ValueError("the program does not say on which macOS it runs")
