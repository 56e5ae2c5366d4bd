"""A field guide of Europe and North America that can identify birds. Plain Python; the server is one directory up."""

from fieldguide.expert import Guide
from fieldguide.orders import AVES

GUIDE = Guide(AVES)

__all__ = ["GUIDE"]
