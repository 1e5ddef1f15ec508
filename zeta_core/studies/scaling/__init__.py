"""How training speeds up with the number of processes: one run shared by them, or runs beside each other."""
