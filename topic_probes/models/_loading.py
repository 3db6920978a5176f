"""``load_model``: a name or a folder in, a TransformerLens model out, ready to be probed.

Weights stay as they were trained: nothing is folded, centred or normalised. Attention is computed
eagerly, because fused kernels make no pattern. The tokenizer is the checkpoint's own. Where the
installed transformer-lens has bridges, the model is a TransformerBridge, also for the architectures
of :mod:`topic_probes.architectures`; transformer-lens 2.x makes a HookedTransformer or HookedEncoder
of the models that it lists by name.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from ..architectures import register

OPENED_BY_BRIDGES = frozenset(
    {
        "AlbertForMaskedLM",
        "BartForConditionalGeneration",
        "BertForMaskedLM",
        "DistilBertForMaskedLM",
        "ElectraForMaskedLM",
        "ElectraForPreTraining",
        "GPT2LMHeadModel",
        "GPTNeoXForCausalLM",
        "Gemma2ForCausalLM",
        "LlamaForCausalLM",
        "MistralForCausalLM",
        "Qwen2ForCausalLM",
        "RobertaForMaskedLM",
    }
)
"""Architectures of which it is known, without bridges at hand, that ``_WITH_BRIDGES`` opens them."""

_WITH_BRIDGES = "3.9"
"""The first release of transformer-lens with bridges that this package is tried on."""

_HEADS = ("ForMaskedLM", "ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
_OWN_HEAD = re.compile(r"(?:LMHeadModel|Model|For[A-Z]\w*)$")
_OPTIONAL_PACKAGES = {"sentencepiece": "sentencepiece", "tiktoken": "tiktoken", "protobuf": "google.protobuf"}
"""Packages that some tokenizers need: name for pip -> module."""


def load_model(
    name_or_folder: str | os.PathLike, *, device: str | torch.device | None = None, dtype: torch.dtype | None = None
) -> Any:
    """Open a pretrained model of the Hugging Face hub, or a folder of one, with its tokenizer as ``model.tokenizer``.

    A checkpoint of a bare backbone (``BertModel``), or of one with a head for another task, is opened with a
    language-model head of random weights; nothing that is probed depends on it.

    Args:
        name_or_folder: such as ``"bert-base-uncased"``, or a folder that ``save_pretrained`` wrote.
        device: where to put it; ``"cuda"`` if there is one, else ``"cpu"``.
        dtype: of the weights; float32 unless given.

    Returns:
        A TransformerBridge, or a HookedTransformer or HookedEncoder, in evaluation mode, weights unprocessed.
        ``model.tokenizer`` makes the ids that ``transformers.AutoTokenizer`` makes.

    Raises:
        FileNotFoundError: if there is no such folder or name, it cannot be fetched without a network, or it lacks
            its configuration, its weights or its tokenizer.
        PermissionError: if the model is gated, and access was not granted.
        ValueError: if the architecture is one that the installed transformer-lens does not open, is not said, or
            needs code that the checkpoint brings; the message says which transformer-lens opens it.
        ModuleNotFoundError: if the model needs a package that is not installed.

    Examples:
        model = topic_probes.load_model("bert-base-uncased")
        report = topic_probes.probe(model, corpus, labels)
    """
    name = _place(name_or_folder)
    device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    dtype = dtype or torch.float32
    config = _read(name, "AutoConfig")
    register()
    architecture = _architecture(name, config)
    tokenizer = _tokenizer(name)
    open_it = _open_bridge if _has_bridge(architecture) else _open_hooked
    # What the checkpoint lacks (a head), or will overwrite, is drawn at random first: not by the caller's generator.
    with torch.random.fork_rng(devices=[]):
        model = open_it(name, architecture, config, device, dtype)
    _give_tokenizer(model, tokenizer)
    return model.eval()


def _place(name_or_folder: str | os.PathLike) -> str:
    """Return a name of the hub as it is, or the path of a folder that exists."""
    name = os.fspath(name_or_folder)
    folder = Path(name).expanduser()
    if name and folder.is_dir():
        if not (folder / "config.json").is_file():
            raise FileNotFoundError(f"the folder {name} has no config.json: give a folder that save_pretrained wrote")
        return str(folder)
    if name and folder.exists():
        raise FileNotFoundError(f"{name} is a file: give the folder it lies in, as save_pretrained wrote it")
    means_a_folder = not isinstance(name_or_folder, str) or name.startswith((".", "~", os.path.sep))
    if means_a_folder or len(Path(name).parts) > 2:
        raise FileNotFoundError(f"there is no model folder {name}: give a folder that save_pretrained wrote, or a name")
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name):
        raise FileNotFoundError(f"name_or_folder must be a folder or a name such as 'bert-base-uncased', got {name!r}")
    return name


def _read(name: str, kind: str, **options: Any) -> Any:
    """Call ``transformers.KIND.from_pretrained`` and turn what goes wrong into one sentence."""
    import transformers

    if kind.startswith("Auto"):
        options["trust_remote_code"] = False  # else transformers asks at the keyboard
    try:
        return getattr(transformers, kind).from_pretrained(name, **options)
    except (OSError, ValueError, ImportError, SafetensorError) as error:
        raise _explained(name, kind, error) from error


def _explained(name: str, kind: str, error: Exception) -> Exception:
    """Return what to tell the user. Kinds of errors are told by class, and by words where transformers has no class."""
    from huggingface_hub import errors as hub

    chain = list(_chain(error))
    said = " ".join(map(str, chain))
    missing = _missing_package(error, said)
    if missing is not None:
        return ModuleNotFoundError(f"{name} needs the package {missing}, which is not installed: pip install {missing}")
    if "trust_remote_code" in said:
        return ValueError(
            f"{name} brings code of its own, which load_model does not run: if you trust it, open it by "
            "TransformerBridge.boot_transformers(name, trust_remote_code=True) and probe that"
        )
    if Path(name).is_dir():
        if isinstance(error, OSError) and kind == "AutoTokenizer":
            return _no_tokenizer(name)
        if not kind.startswith("Auto") and not isinstance(error, ValueError):
            return FileNotFoundError(
                f"the folder {name} has a configuration and no weights that transformers can read: "
                "model.save_pretrained(folder) writes them"
            )
        return ValueError(
            f"the folder {name} holds no model that transformers {version('transformers')} can read: "
            f"{_first_words(error)}"
        )
    if any(isinstance(one, hub.GatedRepoError) for one in chain):
        return PermissionError(
            f"{name} is gated: accept its conditions on its page on the hub, then log in with `hf auth login` or set "
            "HF_TOKEN"
        )
    if any(isinstance(one, hub.RepositoryNotFoundError) for one in chain):
        return FileNotFoundError(
            f"there is no model {name!r}, as a folder or on the hub: check the spelling (a private one needs "
            "`hf auth login`)"
        )
    if _is_about_the_network(chain, said):
        return FileNotFoundError(
            f"{name} is not on this machine and cannot be fetched without a network: give a folder, or fetch it once "
            "online"
        )
    if isinstance(error, ValueError):
        return ValueError(f"{name} cannot be read by transformers {version('transformers')}: {_first_words(error)}")
    return FileNotFoundError(f"there is no model {name!r} that transformers can read: {_first_words(error)}")


def _no_tokenizer(name: str) -> FileNotFoundError:
    return FileNotFoundError(
        f"{name} has a model and no tokenizer: put one there by tokenizer.save_pretrained(folder), or open the model "
        "by TransformerBridge.boot_transformers and pass tokenizer= to the probe"
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _missing_package(error: Exception, said: str) -> str | None:
    for package, module in _OPTIONAL_PACKAGES.items():
        if package in said.lower() and not _is_installed(module):
            return package
    if isinstance(error, ImportError):
        told = re.search(r"requires (?:the )?[`']?([\w-]+)|No module named ['\"]([\w-]+)", str(error))
        return (error.name or next((group for group in told.groups() if group), None)) if told else error.name
    return None


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package around a submodule
        return False


def _is_about_the_network(chain: list[BaseException], said: str) -> bool:
    from huggingface_hub import errors as hub

    kinds = (ConnectionError, TimeoutError, hub.LocalEntryNotFoundError, hub.OfflineModeIsEnabled)
    words = ("couldn't connect", "offline mode", "name resolution", "max retries", "timed out", "connection error")
    return any(isinstance(one, kinds) for one in chain) or any(word in said.lower() for word in words)


def _first_words(error: Exception) -> str:
    """Return the first sentence of what a library says, which is often a page."""
    sentence = re.split(r"[.!?:]\s|\n", str(error).strip(), maxsplit=1)[0].rstrip(".")
    return sentence[:200] or type(error).__name__


def _architecture(name: str, config: Any) -> str:
    """Return the class to open: the checkpoint's own, or one of its family with a head that a bridge knows."""
    import transformers

    own = (getattr(config, "architectures", None) or [None])[0]
    if own is None:
        raise ValueError(
            f"{name} does not say its architecture: add it to its config.json, such as "
            '"architectures": ["BertForMaskedLM"]'
        )
    if _has_bridge(own) or own in OPENED_BY_BRIDGES:
        return own
    family = _OWN_HEAD.sub("", own)
    headed = [family + head for head in _HEADS if hasattr(transformers, family + head)]
    known = [one for one in headed if _has_bridge(one)] or [one for one in headed if one in OPENED_BY_BRIDGES]
    return (known or [own])[0]


def _tokenizer(name: str) -> Any:
    tokenizer = _read(name, "AutoTokenizer")
    # transformers 5 makes one that knows its special tokens alone where a checkpoint has none.
    if not set(tokenizer.get_vocab().values()) - set(tokenizer.all_special_ids):
        raise _no_tokenizer(name)
    return tokenizer


def _adapters() -> Any:
    """Return the names of the architectures that have a bridge, or None where there are no bridges."""
    try:
        from transformer_lens.factories.architecture_adapter_factory import SUPPORTED_ARCHITECTURES
    except ImportError:
        return None
    return SUPPORTED_ARCHITECTURES


def _has_bridge(architecture: str) -> bool:
    import transformers

    return architecture in (_adapters() or ()) and hasattr(transformers, architecture)


def _open_bridge(name: str, architecture: str, config: Any, device: torch.device, dtype: torch.dtype) -> Any:
    from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module

    config.architectures = [architecture]
    wrapped = _read(name, architecture, config=config, attn_implementation="eager", dtype=dtype).to(device).eval()
    return build_bridge_from_module(wrapped, architecture, hf_config=wrapped.config, dtype=dtype, model_name=name)


def _open_hooked(name: str, architecture: str, _config: Any, device: torch.device, dtype: torch.dtype) -> Any:
    """Open what transformer-lens 2.x knows by name; it converts the weights of models that it lists, and no others."""
    if _adapters() is not None:
        raise ValueError(
            f"{name} is of the architecture {architecture}, which transformer-lens {version('transformer-lens')} does "
            "not open: try a newer one, or register an adapter for it (ArchitectureAdapterFactory.register_adapter)"
        )
    from transformer_lens import HookedEncoder, HookedTransformer

    try:
        if architecture.startswith("Bert"):
            return HookedEncoder.from_pretrained(name, device=str(device), dtype=dtype)
        return HookedTransformer.from_pretrained_no_processing(name, device=str(device), dtype=dtype)
    except OSError as error:
        raise _explained(name, architecture, error) from error
    except (ValueError, NotImplementedError, KeyError) as error:
        later = f"transformer-lens {_WITH_BRIDGES} or newer"
        opens = "opens it" if architecture in OPENED_BY_BRIDGES else "opens many more"
        raise ValueError(
            f"{name} is of the architecture {architecture}, and transformer-lens {version('transformer-lens')} opens "
            f"only models that it lists by their name on the hub, no folders: {later} {opens}"
        ) from error


def _give_tokenizer(model: Any, tokenizer: Any) -> None:
    """Make ``tokenizer`` the model's own, as it is.

    TransformerLens loads every tokenizer with a BOS token again, with ``add_bos_token=True``, and the
    new one may put no [SEP] after a text. It does so wherever it is given a tokenizer, except for the
    first that is assigned to a bridge; so the bridge is built without one. A HookedTransformer's is a
    plain attribute. What the configuration says about it is set here as TransformerLens finds it out.
    """
    if tokenizer.pad_token is None and tokenizer.eos_token is not None:
        tokenizer.pad_token = tokenizer.eos_token  # lists of texts need one; it changes no ids of a text
    model.tokenizer = tokenizer
    ids = list(tokenizer("a")["input_ids"])
    begin = {one for one in (tokenizer.bos_token_id, tokenizer.cls_token_id) if one is not None}
    model.cfg.tokenizer_prepends_bos = len(ids) > 1 and ids[0] in begin
    if hasattr(model.cfg, "tokenizer_appends_eos"):
        model.cfg.tokenizer_appends_eos = len(ids) > 1 and ids[-1] == tokenizer.eos_token_id
