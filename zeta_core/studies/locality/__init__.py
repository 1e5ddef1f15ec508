"""`zeta locality`: how many true neighbours the Z-order curve finds, at random points or in a trained model."""
