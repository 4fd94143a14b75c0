"""``python model.rxm``: run a compiled model for NVIDIA GPUs on this machine's."""

import sys

from relax_mlir.runtime.cuda.trial import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
