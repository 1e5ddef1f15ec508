"""Coordinates to Morton codes (paper, method step 2)."""

from .api import CURVES, curve_orders, grid_cells, zorder_codes

__all__ = ["CURVES", "curve_orders", "grid_cells", "zorder_codes"]
