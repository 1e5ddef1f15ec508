"""`zeta` with some seconds more a step, for a launcher to start: there is time to kill it."""

import sys

from studies.sittings import slow_down

from zeta_cli.start import run

if __name__ == "__main__":
    slow_down(float(sys.argv.pop(1)))
    run()
