"""The platform of a program, read from the program itself, so that no package claims another one."""

import struct
from pathlib import Path
from typing import NamedTuple


class Platform(NamedTuple):
    arch: str
    """x86_64 or aarch64."""
    os: str
    """linux or darwin."""
    static: bool
    """Whether it runs without any shared library. Programs for macOS never do."""

    def __str__(self) -> str:
        return f"{self.arch}-{self.os}"


ELF_MACHINES = {62: "x86_64", 183: "aarch64"}
MACH_O_MACHINES = {0x01000007: "x86_64", 0x0100000C: "aarch64"}
PT_DYNAMIC = 2
PT_INTERP = 3
DT_NEEDED = 1


def platform_of(program: Path) -> Platform:
    data = program.read_bytes()
    if data[:6] == b"\x7fELF\x02\x01":
        [machine] = struct.unpack_from("<H", data, 18)
        if machine in ELF_MACHINES:
            return Platform(ELF_MACHINES[machine], "linux", _is_static(data))
    if data[:4] == b"\xcf\xfa\xed\xfe":
        [machine] = struct.unpack_from("<I", data, 4)
        if machine in MACH_O_MACHINES:
            return Platform(MACH_O_MACHINES[machine], "darwin", False)
    raise SystemExit(f"{program} is no program for Linux or macOS on x86_64 or aarch64")


def _is_static(data: bytes) -> bool:
    """Whether an ELF file names neither an interpreter nor a library. A static-pie has a dynamic section, too."""
    [offset] = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for index in range(count):
        header = struct.unpack_from("<IIQQQQQQ", data, offset + index * size)
        kind, start, length = header[0], header[2], header[5]
        if kind == PT_INTERP:
            return False
        if kind == PT_DYNAMIC:
            tags = struct.iter_unpack("<QQ", data[start : start + length])
            if any(tag == DT_NEEDED for tag, _ in tags):
                return False
    return True
