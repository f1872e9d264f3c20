"""The one logger of certgcl, by the name ``certgcl``; silent unless the user's program configures it."""

import logging

LOG = logging.getLogger("certgcl")
LOG.addHandler(logging.NullHandler())
