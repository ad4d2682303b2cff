"""Turns a bundle into a package for a build system or a language: a CMake project, an Arduino library, a Python wheel ..."""
