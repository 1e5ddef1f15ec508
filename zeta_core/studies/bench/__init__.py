"""`zeta bench`: time and memory of attention operators, each in a process of its own."""
