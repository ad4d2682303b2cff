"""The version of glowembed, written into profiles and bundles. It equals the one in pyproject.toml; a test checks this."""

VERSION = "1.0.0rc1"
