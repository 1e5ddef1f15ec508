"""The `zeta` command: typed options and messages around zeta_core, which knows nothing of it."""
