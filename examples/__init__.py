"""Programs that show relax_mlir at work; run them with ``python -m examples.NAME``."""
