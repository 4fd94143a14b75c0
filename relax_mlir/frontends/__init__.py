"""Where models come from: each frontend makes an ``IRModule`` of relax operations."""
