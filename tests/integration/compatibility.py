"""docs/compatibility.md: which kubectl can do what, as the tests of test_kubectl*.py found it.

A test belongs to a row of the check-list; it runs with each version that has the command. Once all of
them ran, test_kubectl_table.py compares what came of them with the table in docs/, or writes it."""

import dataclasses
import functools

import pytest

from host import ROOT
from kubectls import BINARIES, minor

TABLE = ROOT / "docs" / "compatibility.md"
BEGIN, END = "<!-- on purpose: begin -->", "<!-- on purpose: end -->"


@dataclasses.dataclass
class Row:
    name: str
    since: int = 0  # the minor version of the first kubectl that has it,
    lacks: str = ""  # and what the earlier ones lack
    later: str = ""  # what it needs that is not there yet; nothing is run then


ROWS = [
    Row("api-resources, api-versions"),
    Row("version, cluster-info"),
    Row("get (table, wide, -A, -l, -L)"),
    Row("get --field-selector, --chunk-size"),
    Row("get -o yaml, json, jsonpath, name"),
    Row("get --sort-by"),
    Row("get --raw"),
    Row("get -w, --watch-only"),
    Row("get NAME -w"),
    Row("get -w over a restart of the daemon"),
    Row("get all, delete all"),
    Row("create -f"),
    Row("--validate=strict, warn, ignore", 25, "--validate is only true or false"),
    Row("--dry-run=server"),
    Row("create configmap, secret, namespace"),
    Row("create service", later="services are read-only until they forward anything"),
    Row("apply"),
    Row("apply --prune --prune-allowlist"),
    Row("apply of a List"),
    Row("apply --server-side"),
    Row("apply --server-side after apply", 26, "does not take over what it applied itself"),
    Row("diff"),
    Row("replace, replace --force"),
    Row("edit"),
    Row("patch (strategic, merge, json)"),
    Row("patch --subresource=status", 24, "no --subresource"),
    Row("label, annotate"),
    Row("scale"),
    Row("autoscale", later="HorizontalPodAutoscalers"),
    Row("describe (kubevirt kinds, configmap, secret, namespace)"),
    Row("describe hpa", later="HorizontalPodAutoscalers"),
    Row("describe svc", later="services with endpoints"),
    Row("describe node"),
    Row("describe pvc"),
    Row("delete (any cascade, force, now)"),
    Row("wait --for=condition, delete"),
    Row("wait --for=jsonpath", 23, "no --for=jsonpath"),
    Row("wait --for=create", 31, "no --for=create"),
    Row("explain"),
    Row("top node, top pod", later="metrics.k8s.io"),
    Row("get events"),
    Row("events, events --for, events -w", 26, "no events command"),
    Row("auth can-i, can-i --list"),
    Row("auth whoami", 27, "no whoami"),
    Row("expose service", later="services are read-only until they forward anything"),
    Row("cordon, uncordon, drain, taint"),
]
BY_NAME = {row.name: row for row in ROWS}

expected = set()  # (row, version, test): all that there are,
passed = set()  # that passed,
failed = set()  # and that did not


def row(name, *subjects):
    """Runs a test with every kubectl that has what this row is about, and with each of the subjects."""
    has_it = [v for v in BINARIES if minor(v) >= BY_NAME[name].since]
    assert not BY_NAME[name].later, f"{name} is there: say so in ROWS"

    def decorate(test):
        labels = [subject.label for subject in subjects] or [""]
        expected.update((name, version, test.__name__ + label)
                        for version in has_it for label in labels)

        @functools.wraps(test)
        def recorded(*arguments, **fixtures):
            label = fixtures["subject"].label if subjects else ""
            case = (name, fixtures["kubectl"].version, test.__name__ + label)
            failed.add(case)
            test(*arguments, **fixtures)
            failed.remove(case)
            passed.add(case)

        if subjects:
            recorded = pytest.mark.parametrize("subject", subjects, ids=labels)(recorded)
        return pytest.mark.parametrize("kubectl", has_it, indirect=True)(recorded)

    return decorate


def complete():
    return bool(expected) and expected == passed | failed


def cell(of, version):
    if of.later:
        return "later"
    if minor(version) < of.since:
        return "n/a"
    return "FAIL" if any((name, v) == (of.name, version) for name, v, _ in failed) else "pass"


def columns():
    """Cells by row, by version: what the table has to say, of the versions that were run."""
    return {version: {of.name: cell(of, version) for of in ROWS} for version in BINARIES}


def columns_of(text):
    lines = [[cell.strip() for cell in line.strip("|").split("|")]
             for line in text.splitlines() if line.startswith("|")]
    if not lines:
        return {}
    return {version: {line[0]: line[i] for line in lines[2:]}
            for i, version in enumerate(lines[0]) if i}


INTRO = """\
# Which kubectl can do what

Written by the tests (`tests/integration/test_kubectl*.py`): each row is what a real kubectl of each
version did with a real daemon, on a replica set and on a ConfigMap where the command takes both. A row
may stand for several tests; it is `pass` if all of them passed. `n/a`: that kubectl has no such command;
`later`: it needs a kind or an API that virtset does not serve yet. The reasons are below the table.

The tests fail when this table says anything else than what they found, for the versions they find.
To write it anew:

    sudo VIRTSET_COMPATIBILITY=$PWD/docs/compatibility.md ./tests/run.sh integration -- -k kubectl
"""


def document(before):
    """The whole file; what people wrote between the markers of the one before is kept."""
    cells = columns()
    width = max(len(of.name) for of in ROWS)
    lines = [INTRO]

    def line(first, others):
        lines.append("| " + " | ".join([first.ljust(width), *others]) + " |")

    line("kubectl", [version.ljust(5) for version in cells])
    lines.append("|" + "-" * (width + 2) + "|" + "|".join("-------" for _ in cells) + "|")
    for of in ROWS:
        line(of.name, [cells[version][of.name].ljust(5) for version in cells])
    lines.append("\n## What is not there\n")
    for of in ROWS:
        if of.since:
            lines.append(f"- `{of.name}` before kubectl 1.{of.since}: {of.lacks}.")
        if of.later:
            lines.append(f"- `{of.name}`, later: {of.later}.")
    own_words = before.partition(BEGIN)[2].partition(END)[0] or "\n"
    lines.append(f"\n## Where virtset differs from a real cluster on purpose\n\n{BEGIN}{own_words}{END}")
    return "\n".join(lines) + "\n"
