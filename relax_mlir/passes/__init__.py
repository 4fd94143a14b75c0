"""Passes: one file each; the path is the name (``relax-fuse-ops`` = relax/fuse_ops.py)."""
