"""Loop nests: an operator as index expressions, a scalar body and loops. Both the numpy reference and the C text are
made from them, with the same operations in the same order, so that their bits agree.
"""
