"""The figures as a table for people, and as one line of JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bench.compare.measures import COUNTED_FOR_S, DELAY_S, STEPS, Figures

ROWS = (
    "load of the machine, before and after",
    f"executions of {STEPS} steps, all at once",
    "  steps a second",
    "  rows that say what happened, each",
    "executions one at a time",
    "  ms a step, submission to end (p50)",
    "  ms from step to step (p50)",
    f"waiting {DELAY_S} s to be tried again when",
    "  the worker is killed: completed",
    "  … and RabbitMQ wiped: completed",
)


def print_table(found: Sequence[Figures], circumstances: dict[str, Any]) -> None:
    """Print what was measured side by side, and below what differs."""
    columns = [list(ROWS), *map(_column, found)]
    heads = ["", *(f"{each.name} {each.version}" for each in found)]
    widths = [max(map(len, [head, *column])) for head, column in zip(heads, columns, strict=True)]
    print()
    for line in (heads, ["-" * width for width in widths], *zip(*columns, strict=True)):
        first, *others = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join([first, *others]).rstrip())
    print(f"\nCompleted counts for {COUNTED_FOR_S:g} s after the kill; nothing is submitted again.")
    for each in found:
        print(f"{each.name}: {each.setup}.")
        for name, value in each.also.items():
            print(f"  also: {name.replace('_', ' ')}: {value:,.1f}")
    print(", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in circumstances.items()))


def print_json(found: Sequence[Figures], circumstances: dict[str, Any], missing: dict[str, str]) -> None:
    """Print everything in one line, with each figure of speed as a multiple of Redrive's."""
    ours = next((each for each in found if each.name == "Redrive"), None)
    ratios = {each.name: _ratios(each, ours) for each in found} if ours is not None else {}
    systems = [asdict(each) for each in found]
    print(json.dumps({"systems": systems, "ratios": ratios, "not_measured": missing, **circumstances}))


def _column(each: Figures) -> list[str]:
    return [
        ", ".join(f"{value:g}" for value in each.load),
        f"{each.executions:,}",
        f"{each.steps_per_s:,.1f}",
        f"{each.rows_per_execution:g}",
        f"{each.latency.executions:,}",
        f"{each.latency.ms_per_step:,.1f}",
        f"{each.latency.ms_between_steps:,.1f}",
        "",
        str(each.worker_killed),
        "no broker" if each.broker_wiped is None else str(each.broker_wiped),
    ]


def _ratios(each: Figures, ours: Figures) -> dict[str, float]:
    return {
        "steps_per_s": round(each.steps_per_s / ours.steps_per_s, 4),
        "ms_per_step": round(each.latency.ms_per_step / ours.latency.ms_per_step, 2),
        "ms_between_steps": round(each.latency.ms_between_steps / ours.latency.ms_between_steps, 2),
    }
