"""The version of glowembed, written into profiles and bundles. The same as in pyproject.toml; a test checks it."""

VERSION = "0.1.0"
