# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-measurements`: lists, prunes and exports a store of measured times."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from fuel_passes.commands import check_outputs, run_command
from fuel_passes.planning.measurements_schema import dump
from fuel_runtime.measurement_store import MeasurementStore, Row

DAY_S = 86_400.0


def parser() -> argparse.ArgumentParser:
    """Returns the command line of `fuel-measurements`."""
    new = argparse.ArgumentParser(
        prog="fuel-measurements",
        description="Look after a store of measured times, which fuel-run --calibrate writes and "
        "--measurements reads.",
        allow_abbrev=False,
    )
    commands = new.add_subparsers(dest="command", required=True, metavar="COMMAND")
    listed = commands.add_parser("list", help="print every time, with how often it was measured")
    pruned = commands.add_parser("prune", help="delete times")
    pruned.add_argument("--days", type=float, metavar="N", help="only those not written for N days")
    pruned.add_argument("--target", metavar="NAME", help="only those of a target, as cpu/numpy")
    pruned.add_argument("--all", action="store_true", help="all of them")
    exported = commands.add_parser("export", help="write the JSON that measurements= reads")
    exported.add_argument("--out", metavar="FILE.json", help="write to a file (standard output)")
    for command in (listed, pruned, exported):
        command.add_argument("store", metavar="FILE.db", help="the store")
    return new


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code: 0, or 2 after an error."""
    command = parser()
    options = command.parse_args(argv)
    if options.command == "prune" and not (options.all or options.days or options.target):
        command.error("prune: say which times: --days, --target or --all")
    return run_command("fuel-measurements", lambda: _run(options))


def _run(options: argparse.Namespace) -> Iterator[str]:
    if options.command == "export":
        check_outputs({"--out": options.out}, {"the store": options.store})
    store = MeasurementStore(options.store, read_only=options.command != "prune")
    if options.command == "prune":
        older = None if options.days is None else options.days * DAY_S
        yield f"deleted {store.prune(older_than_s=older, target=options.target)}"
    elif options.command == "export":
        text = dump(store.measurements())
        if options.out is None:
            yield text.rstrip("\n")
        else:
            Path(options.out).write_text(text, encoding="utf-8")
    else:
        rows = store.rows()
        yield f"{len(rows)} times"
        yield from map(_line, rows)


def _line(row: Row) -> str:
    key, estimate = row.key, row.estimate
    day = time.strftime("%Y-%m-%d", time.gmtime(row.used))
    revision = f" {key.revision}" if key.revision else ""
    hardware = f" on {key.hardware}" if key.hardware else ""
    return (
        f"{key.target}{revision}{hardware}: {', '.join(key.ops)} ({', '.join(key.dtypes)}; "
        f"{', '.join(map(str, key.shape_class))}): {estimate.ns:,.0f} ns, "
        f"+-{estimate.spread:,.0f}, {estimate.count} times, {day}"
    )


if __name__ == "__main__":
    sys.exit(main())
