"""``load_model``: a name or a folder in, a TransformerLens model out, ready to be probed.

Weights stay as they were trained: nothing is folded, centred or normalised. Attention is computed
eagerly, because fused kernels make no pattern. A TransformerBridge is preferred, where the installed
transformer-lens has one for the architecture; else a HookedTransformer or HookedEncoder.
"""

from __future__ import annotations

import os
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

_HEAD_OF_BARE = ("ForMaskedLM", "ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
"""A checkpoint of a bare backbone (``BertModel``) is opened with the head that its bridge expects."""

_OPENED_BY = {
    "BertForMaskedLM": "2.16 or newer",
    "GPT2LMHeadModel": "2.16 or newer",
    "GPTNeoXForCausalLM": "2.16 or newer",
    "LlamaForCausalLM": "2.16 or newer",
    "MistralForCausalLM": "2.16 or newer",
    "Gemma2ForCausalLM": "2.16 or newer",
    "Qwen2ForCausalLM": "2.16 or newer",
    "BartForConditionalGeneration": "3.9 or newer",
    "RobertaForMaskedLM": "3.9 or newer",
    "ElectraForMaskedLM": "3.9 or newer",
    "ElectraForPreTraining": "3.9 or newer",
    "AlbertForMaskedLM": "3.9 or newer",
    "DistilBertForMaskedLM": "3.9 or newer",
}


def load_model(
    name_or_folder: str | os.PathLike, *, device: str | torch.device | None = None, dtype: torch.dtype | None = None
) -> Any:
    """Open a pretrained model of the Hugging Face hub, or a folder of one, with its tokenizer as ``model.tokenizer``.

    Args:
        name_or_folder: such as ``"bert-base-uncased"``, or a folder that ``save_pretrained`` wrote.
        device: where to put it; ``"cuda"`` if there is one, else ``"cpu"``.
        dtype: of the weights; float32 unless given.

    Returns:
        A TransformerBridge, or a HookedTransformer or HookedEncoder, in evaluation mode, weights unprocessed.

    Raises:
        FileNotFoundError: if there is no such folder or name, or it cannot be fetched without a network.
        PermissionError: if the model is gated, and access was not granted.
        ValueError: if the architecture is one that the installed transformer-lens does not open.
        ModuleNotFoundError: if the model needs a package that is not installed.
    """
    name = os.fspath(name_or_folder)
    device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    dtype = dtype or torch.float32
    config = _read(name, _auto("AutoConfig"))
    architecture = _architecture(name, config)
    if _has_bridge(architecture):
        return _open_bridge(name, architecture, config, device, dtype)
    return _open_hooked(name, architecture, device, dtype)


def _auto(kind: str) -> Any:
    import transformers

    return getattr(transformers, kind)


def _read(name: str, loader: Any, **options: Any) -> Any:
    """Call ``loader.from_pretrained`` and turn what goes wrong into one sentence."""
    if os.path.sep in name and Path(name).expanduser().is_absolute() and not Path(name).is_dir():
        raise FileNotFoundError(f"there is no model folder {name}: give a folder that save_pretrained wrote, or a name")
    try:
        return loader.from_pretrained(name, **options)
    except ImportError as error:
        needed = re.search(r"[`']?([\w-]+)[`']? (?:library|package)|requires the ([\w-]+)", str(error))
        package = next((group for group in needed.groups() if group), "a package") if needed else "a package"
        raise ModuleNotFoundError(f"{name} needs {package}, which is not installed: pip install {package}") from error
    except (OSError, ValueError) as error:
        raise _explained(name, error) from error


def _explained(name: str, error: Exception) -> Exception:
    told = " ".join(str(part) for part in (error, error.__cause__, error.__context__) if part).lower()
    if "gated" in told or ("401" in told and "token" in told):
        return PermissionError(
            f"{name} is gated: accept its conditions on its page, then log in with `hf auth login` or set HF_TOKEN"
        )
    if any(word in told for word in ("offline", "couldn't connect", "connection", "resolve", "timed out")):
        return FileNotFoundError(
            f"{name} is not on this machine and cannot be fetched without a network: "
            "give a folder, or fetch it once online"
        )
    if Path(name).is_dir():
        return FileNotFoundError(f"the folder {name} holds no model that transformers can read: {_first_line(error)}")
    return FileNotFoundError(
        f"there is no model {name!r}, as a folder or on the hub: check the spelling ({_first_line(error)})"
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__


def _architecture(name: str, config: Any) -> str:
    """Return the class that a bridge wants: the checkpoint's own, with a head put on a bare backbone."""
    import transformers

    own = (getattr(config, "architectures", None) or [None])[0]
    if own is None:
        raise ValueError(f"{name} does not say its architecture: its config.json has no `architectures`")
    if own.endswith("Model") and not own.endswith("LMHeadModel"):
        stem = own.removesuffix("Model")
        headed = [stem + head for head in _HEAD_OF_BARE if hasattr(transformers, stem + head)]
        return next((candidate for candidate in headed if _has_bridge(candidate)), headed[0] if headed else own)
    return own


def _has_bridge(architecture: str) -> bool:
    try:
        from transformer_lens.factories.architecture_adapter_factory import ArchitectureAdapterFactory
    except ImportError:
        return False
    if hasattr(ArchitectureAdapterFactory, "discover_entry_points"):
        ArchitectureAdapterFactory.discover_entry_points()
    from transformer_lens.factories.architecture_adapter_factory import SUPPORTED_ARCHITECTURES

    return architecture in SUPPORTED_ARCHITECTURES


def _open_bridge(name: str, architecture: str, config: Any, device: torch.device, dtype: torch.dtype) -> Any:
    from transformer_lens.model_bridge import TransformerBridge

    config.architectures = [architecture]
    loader = _auto(architecture)
    wrapped = _read(name, loader, config=config, attn_implementation="eager", dtype=dtype).to(device).eval()
    tokenizer = _read(name, _auto("AutoTokenizer"))
    bridge = TransformerBridge.boot_transformers(
        name, hf_model=wrapped, tokenizer=tokenizer, device=str(device), dtype=dtype
    )
    return bridge.eval()


def _open_hooked(name: str, architecture: str, device: torch.device, dtype: torch.dtype) -> Any:
    """Open what transformer-lens 2.x and 3.x know by name (they convert weights of models they list)."""
    import transformer_lens

    hooked = "HookedEncoder" if architecture.startswith("Bert") else "HookedTransformer"
    try:
        kind = getattr(transformer_lens, hooked)
    except (AttributeError, ImportError):
        raise ValueError(_cannot_open(name, architecture)) from None
    try:
        if hooked == "HookedEncoder":
            return kind.from_pretrained(name, device=str(device), dtype=dtype).eval()
        return kind.from_pretrained_no_processing(name, device=str(device), dtype=dtype).eval()
    except (ValueError, NotImplementedError, KeyError) as error:
        raise ValueError(_cannot_open(name, architecture)) from error


def _cannot_open(name: str, architecture: str) -> str:
    known = _OPENED_BY.get(architecture)
    remedy = f"transformer-lens {known} opens it" if known else "no transformer-lens that is supported here opens it"
    return f"{name} is a {architecture}, which transformer-lens {version('transformer-lens')} does not open: {remedy}"
