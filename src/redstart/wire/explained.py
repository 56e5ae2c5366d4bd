"""Public Structs that say which fields they have when they are made with another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:  # checkers know the fields already
    from msgspec import StructMeta

    Explained = StructMeta
else:

    class Explained(type(Struct)):
        """The metaclass of a Struct that people make by hand; msgspec's own words do not name the class."""

        def __call__(cls, *args: Any, **fields: Any) -> Any:
            try:
                return super().__call__(*args, **fields)
            except TypeError as error:
                if type(error) is not TypeError:  # of a check of the class's own
                    raise
                unknown = [name for name in fields if name not in cls.__struct_fields__]
                what = f"it has no field {unknown[0]!r}" if unknown else str(error)
                raise TypeError(f"{cls.__name__}: {what}; its fields: {', '.join(cls.__struct_fields__)}") from None
