"""`zeta ablate`: one thing changed at a time, over seeds."""
