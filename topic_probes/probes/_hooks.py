"""The door to TransformerLens: what we ask of a model, and how it is left as it was.

A model is recognised by what it can do, never by its class: it has a ``cfg``, a ``hook_dict`` and
``hooks``. That holds for HookedTransformer, HookedEncoder, TransformerBridge and for any
HookedRootModule with the same hook points.
"""

from __future__ import annotations

import copy
import functools
import inspect
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from numbers import Integral
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from .._errors import PatternError

_PATTERN_HOOK = re.compile(r"blocks\.(\d+)\.attn\.hook_pattern")
_MASK_ARGUMENTS = ("attention_mask", "one_zero_attention_mask")


@runtime_checkable
class HookableModel(Protocol):
    """What a model must offer to be probed."""

    cfg: Any

    @property
    def hook_dict(self) -> dict[str, Any]: ...

    def hooks(self, fwd_hooks: Any = ..., bwd_hooks: Any = ...) -> Any: ...

    def forward(self, *args: Any, **kwargs: Any) -> Any: ...


class _Enough(Exception):
    """Raised inside our own hook to end a forward pass whose remaining layers nobody asked for."""


def require_probeable(model: Any) -> None:
    """Raise unless ``model`` can be hooked and is in evaluation mode.

    Raises:
        TypeError: if it has no hooks.
        ValueError: if it, or any module in it, is in training mode (dropout would change what is measured).
    """
    missing = [name for name in ("cfg", "hook_dict", "hooks", "forward") if not hasattr(model, name)]
    if missing:
        raise TypeError(
            f"model must be a TransformerLens model (HookedTransformer, HookedEncoder, TransformerBridge), got "
            f"{type(model).__name__} without {', '.join(missing)}: "
            "wrap a Hugging Face model by TransformerBridge.boot_transformers(name, hf_model=model)"
        )
    if model.training:
        raise ValueError(
            f"model must be in evaluation mode, got a {type(model).__name__} in training mode: model.eval()"
        )
    # A bridge keeps the model that it wraps outside its own modules.
    for root in (model, model.__dict__.get("original_model")):
        for name, module in root.named_modules() if isinstance(root, torch.nn.Module) else ():
            if module.training:
                raise ValueError(
                    f"all of the model must be in evaluation mode, and {name or type(module).__name__} of this "
                    f"{type(model).__name__} is in training mode: model.eval()"
                )


def pattern_hooks(model: HookableModel, layers: Sequence[int] | None = None) -> tuple[dict[int, str], tuple[int, ...]]:
    """Return the attention pattern hooks by layer, and the layers of the model that have none.

    Args:
        model: any TransformerLens model.
        layers: the layers wanted (negative ones count from the end); None for all that have attention.

    Raises:
        PatternError: if no layer has attention, or one that was asked for has none.
        ValueError: if a layer does not exist.
    """
    found = {int(match[1]): name for name in model.hook_dict if (match := _PATTERN_HOOK.fullmatch(name))}
    n_layers = int(getattr(model.cfg, "n_layers", 0) or 0)
    unavailable = tuple(layer for layer in range(n_layers) if layer not in found)
    if not found:
        stacks = sorted({name.split(".")[0] for name in model.hook_dict if name.endswith(".hook_pattern")})
        if len(stacks) > 1:
            raise PatternError(
                f"{describe(model)} has attention in several stacks ({', '.join(stacks)}): encoder-decoders cannot be "
                "probed yet; give an encoder or a decoder"
            )
        raise PatternError(
            f"{describe(model)} has no attention pattern to read: none of its hooks is called "
            "blocks.{layer}.attn.hook_pattern; a model without attention cannot be probed for it"
        )
    if layers is None:
        return dict(sorted(found.items())), unavailable
    if isinstance(layers, str) or not isinstance(layers, Iterable):
        raise TypeError(f"layers must be a list of whole numbers, such as layers=[0, 1], got {layers!r}")
    wanted: dict[int, str] = {}
    for layer in layers:
        if isinstance(layer, bool) or not isinstance(layer, Integral):
            raise TypeError(f"layers must be whole numbers, got {layer!r}")
        number = layer + n_layers if layer < 0 else layer
        if not 0 <= number < max(n_layers, max(found) + 1):
            raise ValueError(f"layers must be in [0, {n_layers}), or negative and counted from the end, got {layer}")
        if number not in found:
            raise PatternError(
                f"layer {number} of {describe(model)} has no attention; layers that have: {sorted(found)}"
            )
        wanted[number] = found[number]
    if not wanted:
        raise ValueError("layers must name at least one layer, or be None for all, got none")
    return dict(sorted(wanted.items())), unavailable


def require_all_fired(model: HookableModel, asked: dict[int, str], fired: set[int]) -> None:
    """Raise PatternError if a pattern that was asked for never came."""
    silent = sorted(set(asked) - fired)
    if silent:
        listed = ", ".join(map(str, silent))
        raise PatternError(
            f"the attention pattern of layer{'s' if len(silent) > 1 else ''} {listed} of {describe(model)} never came: "
            'load the model with attn_implementation="eager" (sdpa and flash attention make no pattern), '
            "or pass layers= without them"
        )


def describe(model: Any) -> str:
    """Return the class and the name of a model, for messages and results."""
    name = getattr(getattr(model, "cfg", None), "model_name", None)
    return type(model).__name__ + (f" {name!r}" if name else "")


def device_of(model: Any) -> torch.device:
    """Return the device where token ids are expected: that of the first parameter."""
    return next(iter(model.parameters())).device


def mask_argument(model: HookableModel) -> str | None:
    """Return the name under which the model's forward takes a 0/1 mask of real tokens, or None if it takes none."""
    parameters = inspect.signature(type(model).forward).parameters
    return next((name for name in _MASK_ARGUMENTS if name in parameters), None)


def arguments_of_call(model: HookableModel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call of the model's forward by name; none if the call does not fit its signature."""
    try:
        bound = inspect.signature(type(model).forward).bind_partial(model, *args, **kwargs).arguments
    except TypeError:  # the model's own forward is about to say so, and knows better what it wants
        return {}
    return {**bound, **bound.get("kwargs", {})}


def mask_of_call(model: HookableModel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    """Return the mask [batch, pos] that a call of the model's forward carries, or None.

    Raises:
        PatternError: if it is not of 0 and 1, one for each position.
    """
    given = arguments_of_call(model, args, kwargs)
    mask = next((given[name] for name in _MASK_ARGUMENTS if given.get(name) is not None), None)
    if mask is None:
        return None
    if not isinstance(mask, Tensor) or mask.ndim > 2 or bool((mask < 0).any()):
        came = f"shape {tuple(mask.shape)}" if isinstance(mask, Tensor) else f"a {type(mask).__name__}"
        raise PatternError(
            f"attach needs an attention mask [batch, pos] of 0 (pad) and 1 (token), got {came}: pass such a mask, or "
            "run this batch outside the block"
        )
    return mask


def tokenizer_of(model: Any, tokenizer: Any) -> Any:
    """Return the tokenizer that was given, or else the model's own; None if there is none.

    Raises:
        TypeError: if what was given is no tokenizer.
    """
    if tokenizer is None:
        return getattr(model, "tokenizer", None)
    if not callable(tokenizer):
        hint = f"transformers.AutoTokenizer.from_pretrained({tokenizer!r})" if isinstance(tokenizer, str) else "one"
        raise TypeError(f"tokenizer must be a transformers tokenizer, got {tokenizer!r:.60}: pass {hint}")
    return tokenizer


class Observer(Protocol):
    """What :func:`observed` calls while forward passes go by."""

    def before_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The model's forward begins."""

    def on_ids(self, token_ids: Tensor) -> None:
        """Token ids [batch, pos] are about to be embedded."""

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

    def embedding(_module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        observer.on_ids(args[0] if args else next(iter(kwargs.values())))

    points = model.hook_dict
    with ExitStack() as stack:
        stack.callback(model.embed.register_forward_pre_hook(embedding, with_kwargs=True).remove)
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


def run_until_pattern(
    model: HookableModel, token_ids: Tensor, mask: Tensor | None, hooks: dict[int, Any], names: dict[int, str]
) -> None:
    """Run the model as far as the last pattern that is wanted: no later layer, no unembedding, no gradient.

    Args:
        model: any TransformerLens model.
        token_ids: [batch, pos] ids.
        mask: [batch, pos] 1 for real tokens, or None.
        hooks: layer -> ``fn(tensor, *, hook)``.
        names: layer -> name of its pattern hook.
    """
    last = max(names)

    def stop(tensor: Tensor, *, hook: Any) -> None:
        raise _Enough

    fwd_hooks = [(names[layer], function) for layer, function in hooks.items()] + [(names[last], stop)]
    arguments = {} if mask is None else {str(mask_argument(model)): mask}
    with torch.no_grad(), model.hooks(fwd_hooks=fwd_hooks), suppress(_Enough):
        model.forward(token_ids, **arguments)


def embedding_matrix(model: Any) -> tuple[Tensor, str]:
    """Return the token embedding [d_vocab, d_model] of a model, and which matrix it is.

    The name says whether it is raw or processed: TransformerLens' loaders may fold layer norm and
    centre the weights that write to the residual stream, which changes dot products and cosines.
    """
    if not hasattr(model, "W_E"):
        raise TypeError(
            "model must be a TransformerLens model or a matrix [d_vocab, d_model] of numpy or torch, got a "
            f"{type(model).__name__}: wrap rows of numbers by numpy.asarray"
        )
    matrix = model.W_E
    weights = matrix.detach()
    config = model.cfg
    processing = []
    if str(getattr(config, "normalization_type", "")) in ("LNPre", "RMSPre"):
        processing.append("layer norm folded")
    if getattr(model, "compatibility_mode", False):
        processing.append("compatibility mode")
    sample = weights[: min(len(weights), 1024)].double()
    if float(sample.mean(dim=1).abs().max()) < 1e-6 * max(float(sample.abs().max()), 1e-30):
        processing.append("centred")
    return weights, f"W_E of {describe(model)} ({', '.join(processing) or 'raw'})"
