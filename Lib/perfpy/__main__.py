import sys

from perfpy.cli import main

sys.exit(main())
