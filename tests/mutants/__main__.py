"""``python -m tests.mutants``: see :mod:`tests.mutants.mutation`.

Child processes import what they run by its name, which that of this module is not.
"""

import sys

from tests.mutants.mutation import main

if __name__ == "__main__":
    sys.exit(main())
