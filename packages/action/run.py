"""The step that runs the command with its server, and says in the job's summary what was found."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

from github import fail, give, is_on, lines, output, setting

# The inputs that name files, with the flags of redouble run that write them. Only an audit has findings.
FILES = {"REPORT_HTML": "--report-html", "SARIF": "--sarif", "JUNIT": "--junit", "JOURNAL": "--journal-out"}
OF_THE_AUDIT = {"SARIF", "JUNIT"}
# GitHub takes 1 MiB a step.
MOST_FINDINGS = 50


def main() -> int:
    audit = setting("AUDIT") or "error"
    if audit not in ("error", "warn", "off"):
        fail(f"audit: {audit} is neither error nor warn nor off")
    wanted = {
        name: Path(setting(name)) for name in FILES if setting(name) and (audit != "off" or name not in OF_THE_AUDIT)
    }
    for path in wanted.values():
        path.parent.mkdir(parents=True, exist_ok=True)
        # What a step before this one wrote is not its result.
        path.unlink(missing_ok=True)
    status = subprocess.run(command(audit, wanted)).returncode
    written = {name: path for name, path in wanted.items() if path.is_file()}
    findings = findings_of(written.get("SARIF"))
    output("status", str(status))
    for level in ("error", "warning"):
        output(f"{level}s", str(sum(finding["level"] == level for finding in findings)))
    for name in ("REPORT_HTML", "SARIF"):
        output(name.lower().replace("_", "-"), str(written[name].absolute()) if name in written else "")
    output("files", "\n".join(str(path.absolute()) for path in written.values()))
    if is_on("SUMMARY") and audit != "off":
        give("GITHUB_STEP_SUMMARY", summary(findings, status, "SARIF" in written))
    return status


def command(audit: str, wanted: dict[str, Path]) -> list[str]:
    words = [os.environ.get("REDOUBLE_BINARY") or "redouble", "run"]
    if audit != "off":
        words.append("--audit" if audit == "error" else "--audit=warn")
        for name in ("LOCKS", "NOT_LOCKS", "ALLOW"):
            for value in lines(name):
                words += ["--" + name.lower().replace("_", "-"), value]
    if is_on("STRICT"):
        words.append("--strict")
    if setting("COMPAT"):
        words += ["--compat", setting("COMPAT")]
    for file in lines("LOAD"):
        words += ["--load", file]
    for name, path in wanted.items():
        words += [FILES[name], str(path)]
    try:
        words += shlex.split(setting("ARGS"))
    except ValueError as error:
        fail(f"args: {error}")
    # As `shell: bash` of a workflow runs its lines.
    return [*words, "--", "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", setting("RUN")]


def findings_of(sarif: Path | None) -> list[dict]:
    """The findings that are not allowed, worst first."""
    if not sarif:
        return []
    [run] = json.loads(sarif.read_text(encoding="utf-8"))["runs"]
    titles = {rule["id"]: rule.get("shortDescription", {}).get("text", "") for rule in run["tool"]["driver"]["rules"]}
    findings = []
    for result in run["results"]:
        if result.get("suppressions"):
            continue
        places = [place["name"] for location in result["locations"] for place in location.get("logicalLocations", [])]
        flow = result.get("codeFlows", [{}])[0].get("threadFlows", [{}])[0].get("locations", [])
        findings.append(
            {
                "code": result["ruleId"],
                "level": result["level"],
                "title": titles.get(result["ruleId"], ""),
                "lock": places[0] if places else "",
                "text": result["message"]["text"],
                "evidence": [step["location"]["message"]["text"] for step in flow],
            }
        )
    order = {"error": 0, "warning": 1}
    return sorted(findings, key=lambda finding: order.get(finding["level"], 2))


def summary(findings: list[dict], status: int, was_audited: bool) -> str:
    """Markdown for the page of the job."""
    text = "### redouble\n\n"
    if not was_audited:
        return text + f"No audit was written; the command ended with {status}.\n"
    if not findings:
        return text + "No lock was misused.\n"
    text += "| | finding | lock |\n|---|---|---|\n"
    for finding in findings[:MOST_FINDINGS]:
        title = f" {cell(finding['title'])}" if finding["title"] else ""
        text += f"| {finding['level']} | `{finding['code']}`{title} | {code(finding['lock'])} |\n"
    if len(findings) > MOST_FINDINGS:
        text += f"\nand {len(findings) - MOST_FINDINGS} more.\n"
    for finding in findings[:MOST_FINDINGS]:
        steps = "\n".join(finding["evidence"])
        # A fence that is longer than any in the text.
        fence = "`" * max(3, longest_ticks(steps) + 1)
        text += f"\n<details><summary>{html(finding['code'])}: {html(finding['lock'])}</summary>\n\n"
        text += f"{html(finding['text'])}\n\n{fence}text\n{steps}\n{fence}\n\n</details>\n"
    return text


def cell(text: str) -> str:
    return html(text).replace("|", "\\|").replace("\n", " ")


def code(text: str) -> str:
    return f"<code>{cell(text)}</code>"


def html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def longest_ticks(text: str) -> int:
    longest = count = 0
    for character in text:
        count = count + 1 if character == "`" else 0
        longest = max(longest, count)
    return longest


if __name__ == "__main__":
    sys.exit(main())
