"""What Cargo.toml says about the package: the only place where version, licence and addresses are written.

    import package
    about = package.about()
    about["version"], about["description"], about["license"], about["repository"], about["keywords"]
"""

import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def about() -> dict:
    """The fields of [package], as cargo reads them."""
    command = [os.environ.get("CARGO", "cargo"), "metadata", "--no-deps", "--format-version", "1", "--offline"]
    told = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    [found] = [found for found in json.loads(told)["packages"] if found["name"] == "redouble"]
    return found


def target() -> Path:
    """The folder that cargo builds into."""
    return Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").resolve()
