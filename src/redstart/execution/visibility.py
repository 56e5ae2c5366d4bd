"""`visible=`: for whom a tool, prompt or resource exists."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from redstart.execution.dependencies import ContextFor, context_class, injected
from redstart.features.errors import RegistrationError, log, place
from redstart.features.options import Visible
from redstart.protocol.call import Call
from redstart.schema.callables import target_of


def seen_by(visible: Visible, context_for: ContextFor) -> Callable[[Call], bool]:
    """The check whether the user of a call may see a tool, prompt or resource. If `visible` raises, it is hidden."""
    parameters = target_of(visible).resolved(lenient=True)
    if len(parameters) != 1 or inspect.iscoroutinefunction(visible):
        raise RegistrationError(f"{place(visible)}: visible= is a plain function of one parameter, the user")
    name, annotation = parameters[0].name, parameters[0].annotation
    wants_context = injected(annotation, parameters[0].default)
    view = context_class(visible, name, annotation, context_for) if wants_context else _user

    def sees(call: Call) -> bool:
        try:
            return bool(visible(view(call)))
        except Exception:
            log.exception("%s: visible= failed, so what it belongs to is hidden", place(visible))
            return False

    return sees


def _user(call: Call) -> Any:
    return call.user
