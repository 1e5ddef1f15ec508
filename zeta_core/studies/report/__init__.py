"""`zeta report`: the rows of results/ as tables, figures and verdicts, each beside the paper's value."""
