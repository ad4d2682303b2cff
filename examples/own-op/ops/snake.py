"""my.ops:Snake, a generated operator: x + sin(a * x)^2 / a.

A definition records a loop nest; the numpy reference and the C text are made from it, in every type. As this one is a function of
one number, it is a table of 256 entries in int8.
"""

from glowembed.nest.expr import call
from glowembed.ops.shared.definition import Definition, elementwise, operator


@operator("my.ops:Snake")
def _snake(n: Definition) -> None:
    a = n.attr("a", 1.0)

    def snake(x):
        wave = call("sin", x * a)
        return x + wave * wave / a

    elementwise(n, [n.input(0)], snake)
