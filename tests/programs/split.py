#!/usr/bin/env python3
"""Gives each program of the manifest that has no half one: a for work on the rules, b held back.

The choice is random with a fixed seed. Programs of one kind and one language are spread over both halves, and the
halves stay of one size. A half that is there already is never changed.
"""
import collections
import pathlib
import random
import tomllib

MANIFEST = pathlib.Path(__file__).resolve().parent / "manifest.toml"
SEED = 18


def strata(program):
    """From the widest group to the narrowest: the latter is balanced first."""
    expected, kind, language = program["expected"], program["kind"], program["language"]
    return [(expected, kind), (expected, language), (expected,)]


def assign(programs, chance):
    count = collections.Counter()
    for program in programs:
        if "half" in program:
            count.update((group, program["half"]) for group in strata(program))
    new = [program for program in programs if "half" not in program]
    chance.shuffle(new)
    halves = {}
    for program in new:
        lead = next((d for d in (count[g, "a"] - count[g, "b"] for g in strata(program)) if d), None)
        half = chance.choice("ab") if lead is None else "b" if lead > 0 else "a"
        halves[program["file"]] = half
        count.update((group, half) for group in strata(program))
    return halves


def main():
    text = MANIFEST.read_text()
    programs = sorted(tomllib.loads(text)["program"], key=lambda program: program["file"])
    halves = assign(programs, random.Random(SEED))
    blocks = text.split("[[program]]\n")
    for number, block in enumerate(blocks[1:], 1):
        file = tomllib.loads(block)["file"]
        if file in halves:
            blocks[number] = f'{block.rstrip()}\nhalf = "{halves[file]}"\n\n'
    MANIFEST.write_text("[[program]]\n".join(blocks).rstrip() + "\n")
    print(f"{len(halves)} programs got a half")


if __name__ == "__main__":
    main()
