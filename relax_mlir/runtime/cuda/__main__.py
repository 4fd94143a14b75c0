"""``python model.rxm``: smoke run of a compiled model on this machine's NVIDIA GPU."""

import sys

from relax_mlir.runtime.cuda.smoke_run import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
