"""Print the C header that kernels include as ge_params.h, with the params structs of all ops.

A bundle has only those that it uses; the analysers want to see every kernel.
"""

from __future__ import annotations

from glowembed.graph.cstruct import c_struct, struct_name
from glowembed.graph.op import kernel_ops


def main() -> None:
    """Each struct once, in the order of names."""
    structs = {struct_name(op.params): c_struct(op.params) for op in kernel_ops().values() if op.kernels}
    lines = ["#ifndef GE_PARAMS_H", "#define GE_PARAMS_H", '#include "ge.h"']
    lines += [structs[name] for name in sorted(structs)]
    print("\n".join([*lines, "#endif"]))


if __name__ == "__main__":
    main()
