"""`python -m redstart` is the `redstart` command."""

import sys

from redstart.cli import main

sys.exit(main())
