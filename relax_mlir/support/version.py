"""The version of the package: that of both distributions."""

__all__ = ["VERSION"]

VERSION = "0.1.0"
