"""Loop nests: an operator as index expressions, a scalar body and loops, from which the numpy reference and the C text are
both made, with the same operations in the same order, so that their bits agree.
"""
