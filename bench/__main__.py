"""Run the measurements that are named, or all: ``python -m bench [name[:option=value...] ...]``."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def main(names: list[str]) -> None:
    """Run each measurement under its name."""
    known = sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py"))
    if unknown := {name.partition(":")[0] for name in names} - set(known):
        sys.exit(f"no measurement is called {', '.join(sorted(unknown))}; there are: {', '.join(known)}")
    for each in names or known:
        name, *options = each.split(":")
        print(f"# {each}", flush=True)
        import_module(f"bench.{name}").main(*options)


if __name__ == "__main__":
    main(sys.argv[1:])
