"""The command line: python -m zeta_core.studies.scaling --config FILE --out OUT"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from zeta_core.errors import RequestError

from .config import make_scaling
from .study import run_scaling


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code: 1 if a setting has no measurement that it should have."""
    parser = argparse.ArgumentParser(prog="python -m zeta_core.studies.scaling", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="a file of experiments/ with `kind: scaling`")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where results/ and runs/ are (default: out)")
    given = parser.parse_args(argv)
    try:
        rows = run_scaling(make_scaling(given.config), out=given.out, say=lambda text: print(text, flush=True))
    except RequestError as error:
        print(f"zeta: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", file=sys.stderr)
        return 130
    return int(any(row.status not in ("ok", "skipped") for row in rows))


if __name__ == "__main__":
    sys.exit(main())
