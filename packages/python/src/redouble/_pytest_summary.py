"""What pytest prints at the end, and the page that lists the pages of the tests."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any, Optional

Told = list[tuple[str, dict[str, Any]]]


def folder_of(path: Path) -> Path:
    """The folder of the tests' pages, beside the page that lists them."""
    return path.with_name(f"{path.stem}_tests")


def summarize(terminalreporter: Any, told: Told, report_path: Optional[str]) -> None:
    found = [(nodeid, each["findings"]) for nodeid, each in told if each["findings"]]
    if found:
        terminalreporter.section("redouble: lock findings", yellow=True)
        for nodeid, findings in found:
            for severity, code, sentence in findings:
                terminalreporter.write(severity, red=severity == "error", yellow=severity == "warning")
                terminalreporter.write_line(f" {code} in {nodeid}: {sentence}")
    if report_path:
        terminalreporter.write_line(f"redouble: the report is in {report_path}")


_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>redouble: tests</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color-scheme: light dark }}
table {{ border-collapse: collapse; width: 100% }}
th, td {{ text-align: left; padding: .3rem .8rem .3rem 0; vertical-align: top; border-bottom: 1px solid #8884 }}
td.number, th.number {{ text-align: right }}
</style>
<h1>Tests and their locks</h1>
<p>{summary}</p>
<table>
<tr><th>Test<th>Outcome<th class="number">Commands<th>Findings
{rows}
</table>
</html>
"""


def write_index(path: str, told: Told) -> None:
    """Write the page that lists the tests: those with findings first, then those that failed."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    ordered = sorted(told, key=lambda each: (not each[1]["findings"], not each[1]["failed"], each[0]))
    rows = []
    for nodeid, each in ordered:
        name = html.escape(nodeid)
        if each["page"]:
            name = f'<a href="{html.escape(each["page"])}">{name}</a>'
        findings = "<br>".join(
            html.escape(f"{severity} {code}: {sentence}") for severity, code, sentence in each["findings"]
        )
        outcome = "failed" if each["failed"] else "passed"
        rows.append(f'<tr><td>{name}<td>{outcome}<td class="number">{each["commands"]}<td>{findings}')
    count = sum(len(each["findings"]) for _, each in told)
    summary = f"{len(told)} tests with a server, {count} findings of the lock auditor."
    target.write_text(_PAGE.format(summary=summary, rows="\n".join(rows)), encoding="utf-8")
