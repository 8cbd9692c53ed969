"""``python -m redouble`` is the program ``redouble``."""

import os
import sys

from . import BinaryNotFound, binary


def main() -> None:
    try:
        program = binary()
    except BinaryNotFound as error:
        sys.exit(f"redouble: {error}")
    os.execv(program, ["redouble", *sys.argv[1:]])


if __name__ == "__main__":
    main()
