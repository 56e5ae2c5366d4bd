"""Songbirds, half of all birds: put together from three files, for they would not fit in one."""

from typing import Final

from fieldguide.orders.crows_to_wrens import CROWS_TO_WRENS
from fieldguide.orders.finches import FINCHES
from fieldguide.orders.thrushes import THRUSHES
from fieldguide.taxonomy import group

PASSERIFORMES: Final = group(
    "Songbirds", "Passeriformes", *CROWS_TO_WRENS, *THRUSHES, *FINCHES, size="small", voice="song"
)
