"""Files for make and CMake, and macros of headers, which bundles and combinations of bundles share.

In: names. Out: texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

HIDDEN = """\
#if defined(__GNUC__) && (defined(__ELF__) || defined(__APPLE__))
#define {NAME}_HIDDEN __attribute__((visibility("hidden")))
#else
#define {NAME}_HIDDEN
#endif
"""

API = """\
/* What a shared library exports, also with -fvisibility=hidden. */
#if defined(__GNUC__) && (defined(__ELF__) || defined(__APPLE__))
#define {NAME}_API __attribute__((visibility("default")))
#else
#define {NAME}_API
#endif
"""

CAST = """\
#ifdef __cplusplus
#define {NAME}_CAST(type, value) static_cast<type>(value)
#else
#define {NAME}_CAST(type, value) ((type)(value))
#endif
"""

ALIGNED = """\
#if defined(__cplusplus) && (__cplusplus >= 201103L || (defined(_MSVC_LANG) && _MSVC_LANG >= 201103L))
#define {NAME}_ALIGNED alignas({align})
#elif defined(__GNUC__)
#define {NAME}_ALIGNED __attribute__((aligned({align})))
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define {NAME}_ALIGNED _Alignas({align})
#elif defined(_MSC_VER)
#define {NAME}_ALIGNED __declspec(align({align}))
#else
#define {NAME}_ALIGNED /* your toolchain's way to align to {align} bytes, if that is more than 8 */
#endif
"""


def hidden(prefix: str) -> str:
    """The macro that precedes constants which two C files of a bundle share."""
    return HIDDEN.format(NAME=prefix)


def header_macros(prefix: str, align: int) -> str:
    """The macros that precede functions and the arena in a bundle's header, and the macro for its casts."""
    return "\n".join((API.format(NAME=prefix), CAST.format(NAME=prefix), aligned(prefix, align)))


def aligned(prefix: str, align: int) -> str:
    """The macro that precedes the first member of an arena."""
    return ALIGNED.format(NAME=prefix, align=align)


def build_files(name: str, sources: Sequence[str], flags: Sequence[str], shared: bool) -> Mapping[str, str]:
    """NAME.mk and CMakeLists.txt. flags: those that the C files need. shared: whether the target is a PC, on which the
    C code may become part of a shared library.
    """
    return {f"{name}.mk": _makefile(name, sources, flags), "CMakeLists.txt": _cmake(name, sources, flags, shared)}


def _makefile(name: str, sources: Sequence[str], flags: Sequence[str]) -> str:
    prefix = name.upper()
    files = " ".join(f"$({prefix}_DIR){source}" for source in sources)
    wanted = f" and $({prefix}_CFLAGS)" if flags else ""
    own = f"{prefix}_CFLAGS := {' '.join(flags)}\n" if flags else ""
    return f"""# include this file from a Makefile, compile $({prefix}_SOURCES) with $({prefix}_INCLUDES){wanted}.
{prefix}_DIR := $(dir $(lastword $(MAKEFILE_LIST)))
ifeq ($(wildcard $({prefix}_DIR){name}.mk),)
$(error {name}.mk lies in a folder with a space in its path, which make cannot handle: include it by a relative path)
endif
{prefix}_SOURCES := {files}
{prefix}_INCLUDES := -I$({prefix}_DIR)
{own}"""


def _cmake(name: str, sources: Sequence[str], flags: Sequence[str], shared: bool) -> str:
    properties = (
        f"{'POSITION_INDEPENDENT_CODE ON ' if shared else ''}C_STANDARD 99 C_STANDARD_REQUIRED ON UNITY_BUILD OFF"
    )
    options = f"target_compile_options({name} PRIVATE {' '.join(flags)})\n" if flags else _optimized(name)
    return f"""# add_subdirectory() this folder and link the library {name}.
add_library({name} STATIC {" ".join(sources)})
target_include_directories({name} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
set_target_properties({name} PROPERTIES {properties})
{options}"""


def _optimized(name: str) -> str:
    return f"""\
# Where a build says nothing of optimization, this library is optimized all the same.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES AND NOT CMAKE_C_FLAGS MATCHES "(^| )-O" AND NOT MSVC)
    target_compile_options({name} PRIVATE -O2)
endif()
"""
