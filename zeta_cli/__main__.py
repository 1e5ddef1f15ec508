"""`python -m zeta_cli`: the `zeta` command where its script is not installed."""

from .start import run

if __name__ == "__main__":
    run()
