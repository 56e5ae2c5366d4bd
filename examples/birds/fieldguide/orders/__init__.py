"""All birds of the guide: the class Aves, with what most birds have in common."""

from typing import Final

from fieldguide.orders.hole_nesters import BUCEROTIFORMES, CORACIIFORMES, PICIFORMES
from fieldguide.orders.hunters import ACCIPITRIFORMES, CATHARTIFORMES, FALCONIFORMES, STRIGIFORMES
from fieldguide.orders.landbirds import APODIFORMES, CAPRIMULGIFORMES, COLUMBIFORMES, CUCULIFORMES, GALLIFORMES
from fieldguide.orders.seabirds import GAVIIFORMES, PODICIPEDIFORMES, PROCELLARIIFORMES, SULIFORMES
from fieldguide.orders.shorebirds import CHARADRIIFORMES
from fieldguide.orders.songbirds import PASSERIFORMES
from fieldguide.orders.wading import CICONIIFORMES, GRUIFORMES, PELECANIFORMES, PHOENICOPTERIFORMES
from fieldguide.orders.waterfowl import ANSERIFORMES
from fieldguide.taxonomy import group

AVES: Final = group(
    "Birds",
    "Aves",
    ANSERIFORMES,
    GALLIFORMES,
    PHOENICOPTERIFORMES,
    PODICIPEDIFORMES,
    COLUMBIFORMES,
    CUCULIFORMES,
    CAPRIMULGIFORMES,
    APODIFORMES,
    GRUIFORMES,
    CHARADRIIFORMES,
    GAVIIFORMES,
    PROCELLARIIFORMES,
    CICONIIFORMES,
    SULIFORMES,
    PELECANIFORMES,
    CATHARTIFORMES,
    ACCIPITRIFORMES,
    STRIGIFORMES,
    BUCEROTIFORMES,
    CORACIIFORMES,
    PICIFORMES,
    FALCONIFORMES,
    PASSERIFORMES,
    head="plain",
    wings="plain",
    bill_colour="dark",
    feet="perching",
    tail="ordinary",
    flight="direct",
    active="day",
)
