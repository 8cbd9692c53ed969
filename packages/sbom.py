#!/usr/bin/env python3
"""Writes the software bill of materials of a binary: CycloneDX 1.6, JSON. `build.py` calls it.

    python3 packages/sbom.py BINARY VERSION OUT

cargo's own plug-ins list crates, and also those that are only needed to build or test. This lists what is in the binary:
the crates that are linked, Lua, which a crate brings as C code, Rust's standard library, and, in a static binary, glibc.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import package  # noqa: E402
from platform_of import Platform, platform_of  # noqa: E402

TARGETS = {
    "x86_64-linux": "x86_64-unknown-linux-gnu",
    "aarch64-linux": "aarch64-unknown-linux-gnu",
    "x86_64-darwin": "x86_64-apple-darwin",
    "aarch64-darwin": "aarch64-apple-darwin",
}


def build(binary: Path, version: str, out: Path) -> list[Path]:
    platform = platform_of(binary)
    path = out / f"redouble-{version}-{platform}.cdx.json"
    path.write_text(json.dumps(bill(binary, platform), indent=2) + "\n")
    return [path]


def bill(binary: Path, platform: Platform) -> dict:
    target = TARGETS[str(platform)]
    told = json.loads(cargo("metadata", "--format-version", "1", "--filter-platform", target))
    crates, depends = linked_crates(told, target)
    [root] = [crate for crate in crates if crate["name"] == "redouble"]
    others = [component(crate, checksums()) for crate in crates if crate is not root]
    application = component(root, {}) | {
        "type": "application",
        "description": root["description"],
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(binary.read_bytes()).hexdigest()}],
    }
    natives = [lua(told), standard_library()] + ([c_library()] if platform.static else [])
    depends[application["bom-ref"]] += [native["bom-ref"] for native in natives]
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"lifecycles": [{"phase": "build"}], "component": application},
        "components": others + natives,
        "dependencies": [{"ref": ref, "dependsOn": sorted(refs)} for ref, refs in sorted(depends.items())],
    }
    # The same binary gets the same number.
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))
    return document | {"serialNumber": f"urn:uuid:{number}"}


def cargo(*arguments: str) -> str:
    command = [os.environ.get("CARGO", "cargo"), *arguments, "--locked"]
    return subprocess.run(command, cwd=package.ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def linked_crates(told: dict, target: str) -> tuple[list[dict], dict[str, list[str]]]:
    """The crates in a binary for a target, of those that `cargo metadata` told, and what each depends on."""
    shown = cargo("tree", "--edges", "normal,no-proc-macro", "--target", target, "--prefix", "none", "--format", "{p}")
    linked = {tuple(line.split()[:2]) for line in shown.splitlines() if line.strip()}
    crates = {crate["id"]: crate for crate in told["packages"] if (crate["name"], "v" + crate["version"]) in linked}
    depends = {}
    for node in told["resolve"]["nodes"]:
        if node["id"] in crates:
            used = [dep["pkg"] for dep in node["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
            depends[purl(crates[node["id"]])] = [purl(crates[id]) for id in used if id in crates]
    return sorted(crates.values(), key=lambda crate: (crate["name"], crate["version"])), depends


def checksums() -> dict[tuple[str, str], str]:
    """The SHA-256 of each crate's archive, as Cargo.lock has it."""
    lock = (package.ROOT / "Cargo.lock").read_text()
    found = re.finditer(r'name = "(.+)"\nversion = "(.+)"\nsource = ".+"\nchecksum = "(.+)"', lock)
    return {(name, version): checksum for name, version, checksum in (match.groups() for match in found)}


def purl(crate: dict) -> str:
    return f"pkg:cargo/{crate['name']}@{crate['version']}"


def component(crate: dict, sums: dict[tuple[str, str], str]) -> dict:
    found = {
        "type": "library",
        "bom-ref": purl(crate),
        "name": crate["name"],
        "version": crate["version"],
        "purl": purl(crate),
    }
    checksum = sums.get((crate["name"], crate["version"]))
    if checksum:
        found["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if crate["license"]:
        # Older crates write a slash for OR.
        found["licenses"] = [{"expression": re.sub(r"\s*/\s*", " OR ", crate["license"])}]
    if crate["repository"]:
        found["externalReferences"] = [{"type": "vcs", "url": crate["repository"]}]
    return found


def lua(told: dict) -> dict:
    """Lua 5.1, which the crate mlua-sys compiles from the source that the crate lua-src has."""
    [source] = [Path(crate["manifest_path"]).parent for crate in told["packages"] if crate["name"] == "lua-src"]
    [header] = source.glob("lua-5.1.*/lua.h")
    release = re.search(r'#define LUA_RELEASE\s+"Lua ([\d.]+)"', header.read_text())
    return native("lua", release.group(1), "MIT", "https://www.lua.org/")


def standard_library() -> dict:
    told = subprocess.run(["rustc", "-vV"], check=True, stdout=subprocess.PIPE, text=True).stdout
    version = re.search(r"^release: (.+)$", told, re.MULTILINE).group(1)
    return native("rust-std", version, "MIT OR Apache-2.0", "https://github.com/rust-lang/rust")


def c_library() -> dict:
    """The C library of the machine that links, which is this one."""
    name, version = os.confstr("CS_GNU_LIBC_VERSION").split()
    return native(name, version, "LGPL-2.1-or-later", "https://www.gnu.org/software/libc/")


def native(name: str, version: str, license: str, site: str) -> dict:
    reference = f"pkg:generic/{name}@{version}"
    return {
        "type": "library",
        "bom-ref": reference,
        "name": name,
        "version": version,
        "purl": reference,
        "licenses": [{"expression": license}],
        "externalReferences": [{"type": "website", "url": site}],
    }


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    for built in build(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])):
        print(built)
