"""Watching the forward passes of a model, whoever makes them, and leaving no trace.

Run from outside, a model gives no sign that a pass has begun: ``run_with_hooks`` calls ``forward``
itself, not the module. So a stand-in for ``forward`` is put on the model while somebody observes it.
"""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

from torch import Tensor

from .._errors import PatternError
from ._hooks import HookableModel


class Observer(Protocol):
    """What :func:`observed` calls while forward passes go by."""

    def before_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The model's forward begins."""

    def on_ids(self, token_ids: Tensor) -> None:
        """Token ids [batch, pos] are about to be embedded."""

    def on_decoder_ids(self, token_ids: Tensor) -> None:
        """Token ids [batch, pos] are about to be embedded by a decoder that has an embedding of its own."""

    def check_call(self) -> None:
        """The forward has ended without an exception; raise if it cannot be counted."""

    def after_call(self) -> None:
        """Every observer's check has passed."""

    def call_failed(self) -> None:
        """The forward, or a check, has ended by an exception."""


class ObservedForward:
    """Stands in for a model's forward while somebody observes it: one for all observers, gone with the last.

    Hooks are on the model during a forward pass only, and are added when it begins: so they come
    after the caller's own and see the tensors that the model goes on with, ``reset_hooks`` between two
    passes does not touch them, and a copy of the model has none. A copy of this object is the bare forward.
    """

    def __init__(self, model: HookableModel) -> None:
        self.model = model
        self.bare = model.forward
        self.own = model.__dict__.get("forward")
        """The forward that the model had of its own, somebody else's wrapper; None if it was that of its class."""
        self.observers: list[tuple[list[tuple[str, Any]], Any]] = []
        self._turn = threading.Lock()
        functools.update_wrapper(self, self.bare)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.observers:
            return self.bare(*args, **kwargs)
        if not self._turn.acquire(blocking=False):
            raise PatternError(
                "a forward pass began before another one of the same attached model had ended: call it from one "
                "thread at a time, and not from within a hook"
            )
        try:
            return self._observed(args, kwargs)
        finally:
            self._turn.release()

    def _observed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        observers = list(self.observers)
        begun: list[Any] = []
        try:
            for _, observer in observers:
                begun.append(observer)
                observer.before_call(args, kwargs)
            with ExitStack() as stack:
                for fwd_hooks, observer in observers:
                    stack.enter_context(_hooked(self.model, fwd_hooks, observer))
                output = self.bare(*args, **kwargs)
            for _, observer in observers:
                observer.check_call()
            for _, observer in observers:
                observer.after_call()
        except BaseException:
            for observer in begun:
                observer.call_failed()
            raise
        return output

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return copy.deepcopy(self.bare, memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.bare.__reduce_ex__(protocol)


@contextmanager
def _hooked(model: Any, fwd_hooks: list[tuple[str, Any]], observer: Any) -> Iterator[None]:
    """Put hooks on a model for one forward pass, and take off these and no others."""

    def taking(tell: Any) -> Any:
        def embedding(_module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            tell(args[0] if args else next(iter(kwargs.values())))

        return embedding

    embeddings = [(model.embed, observer.on_ids)]
    if hasattr(model, "decoder_embed"):
        embeddings.append((model.decoder_embed, observer.on_decoder_ids))
    points = model.hook_dict
    with ExitStack() as stack:
        for module, tell in embeddings:
            stack.callback(module.register_forward_pre_hook(taking(tell), with_kwargs=True).remove)
        for name, function in fwd_hooks:
            point = points[name]
            point.add_hook(function)
            stack.callback(_unhook, point, point.fwd_hooks[-1])
        yield


def _unhook(point: Any, handle: Any) -> None:
    handle.hook.remove()
    point.fwd_hooks = [other for other in point.fwd_hooks if other is not handle]


@contextmanager
def observed(model: HookableModel, fwd_hooks: list[tuple[str, Any]], observer: Any) -> Iterator[None]:
    """Observe every forward pass in the block, and leave the model exactly as it was.

    Blocks may end in any order.

    Args:
        model: any TransformerLens model.
        fwd_hooks: pairs (hook name, ``fn(tensor, *, hook)``).
        observer: an :class:`Observer`.
    """
    forward = model.__dict__.get("forward")
    if not isinstance(forward, ObservedForward) or forward.model is not model:
        forward = ObservedForward(model)
        # Straight into __dict__: run_with_hooks calls .forward, not the module, and a bridge's own
        # __setattr__ would pass the name on to the wrapped model.
        model.__dict__["forward"] = forward
    entry = (fwd_hooks, observer)
    forward.observers.append(entry)
    try:
        yield
    finally:
        forward.observers = [other for other in forward.observers if other is not entry]
        # Where somebody has wrapped the forward since, theirs stays; ours under it passes calls on.
        if not forward.observers and model.__dict__.get("forward") is forward:
            if forward.own is None:
                del model.__dict__["forward"]
            else:
                model.__dict__["forward"] = forward.own
