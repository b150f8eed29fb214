"""How a parameter and a head are chosen: evidence from rows that were not learnt, and what reads it."""
