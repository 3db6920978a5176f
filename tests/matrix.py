"""What opens where: families of models by releases of transformer-lens, as declared and as measured.

``python tests/matrix.py`` measures every family that the installed release opens and prints a table;
``python tests/matrix.py --readme`` prints the table of the README, which is made of the declared data.
The models are tiny and random (:mod:`tiny_models`). A HookedTransformer is made by TransformerLens' own
conversion of the weights, a TransformerBridge by its own adapter or by one of :mod:`topic_probes.architectures`.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any
from unittest import mock

import numpy as np
import torch

import helpers
import oracles
import tiny_models

BRIDGE, OURS, TRANSFORMER, ENCODER = "bridge", "bridge (adapter of topic_probes)", "HookedTransformer", "HookedEncoder"

COLUMNS = ("2.16", "3.9", "4.3")
"""One release of transformer-lens of each major version that is supported."""

CAUSAL, BIDIRECTIONAL, CROSSING = "causal", "bidirectional", "every token of the encoder"

_EVERYWHERE_ENCODER = ((ENCODER,), (ENCODER, BRIDGE), (BRIDGE,))
_EVERYWHERE_DECODER = ((TRANSFORMER,), (TRANSFORMER, BRIDGE), (BRIDGE,))
_BY_US = ((), (OURS,), (OURS,))


@dataclass(frozen=True)
class Row:
    """A family of models: what it should look like, and which releases open it."""

    architecture: str
    sees: tuple[str, ...]
    """What the queries of each layer see, in the words of ``AttentionResult.visibility``. In an encoder-decoder: each
    layer of the encoder, then of the decoder, then of cross-attention."""
    ways: tuple[tuple[str, ...], ...]
    """For each of ``COLUMNS``, the ways to open it."""
    n_heads: int = 3
    readme: bool = True
    """False for a variant of a family that has a line of its own."""

    @property
    def here(self) -> tuple[str, ...]:
        """The ways of the installed release."""
        return self.ways[COLUMNS.index(column())]


ROWS: dict[str, Row] = {
    "BERT": Row("BertForMaskedLM", (BIDIRECTIONAL,) * 2, _EVERYWHERE_ENCODER),
    "RoBERTa": Row("RobertaForMaskedLM", (BIDIRECTIONAL,) * 2, ((), (OURS,), (BRIDGE,))),
    "ELECTRA generator": Row("ElectraForMaskedLM", (BIDIRECTIONAL,) * 2, _BY_US),
    "ELECTRA generator, narrow embeddings": Row("ElectraForMaskedLM", (BIDIRECTIONAL,) * 2, _BY_US, readme=False),
    "ELECTRA discriminator": Row("ElectraForPreTraining", (BIDIRECTIONAL,) * 2, _BY_US),
    "ELECTRA discriminator, narrow embeddings": Row(
        "ElectraForPreTraining", (BIDIRECTIONAL,) * 2, _BY_US, readme=False
    ),
    "ALBERT": Row("AlbertForMaskedLM", (BIDIRECTIONAL,) * 3, _BY_US),
    "ALBERT, groups": Row("AlbertForMaskedLM", (BIDIRECTIONAL,) * 6, _BY_US, readme=False),
    "DistilBERT": Row("DistilBertForMaskedLM", (BIDIRECTIONAL,) * 2, _BY_US),
    "BART": Row(
        "BartForConditionalGeneration",
        (BIDIRECTIONAL,) * 2 + (CAUSAL,) * 2 + (CROSSING,) * 2,
        ((), (BRIDGE,), (BRIDGE,)),
    ),
    "GPT-2": Row("GPT2LMHeadModel", (CAUSAL,) * 2, _EVERYWHERE_DECODER),
    "GPT-NeoX": Row("GPTNeoXForCausalLM", (CAUSAL,) * 2, _EVERYWHERE_DECODER),
    "Llama": Row("LlamaForCausalLM", (CAUSAL,) * 2, _EVERYWHERE_DECODER, n_heads=4),
    "Gemma 2": Row("Gemma2ForCausalLM", ("causal, window of 4", CAUSAL), _EVERYWHERE_DECODER, n_heads=4),
    "Mistral": Row("MistralForCausalLM", ("causal, window of 5",) * 2, _EVERYWHERE_DECODER, n_heads=4),
    "Qwen2": Row("Qwen2ForCausalLM", (CAUSAL,) * 2, _EVERYWHERE_DECODER, n_heads=4),
}
"""Family -> what is declared of it. The names are those of ``tiny_models.MODELS``."""

ALSO = {"GPT-NeoX": "GPT-NeoX (Pythia)", "Llama": "Llama (grouped queries)", "Gemma 2": "Gemma 2 (windows, soft caps)"}
"""What the README adds to a name."""


def column() -> str:
    """The column of the installed transformer-lens: that of its major version."""
    major = version("transformer-lens").split(".")[0]
    return next(name for name in COLUMNS if name.split(".")[0] == major)


def cases(rows: dict[str, Row] = ROWS) -> list[tuple[str, str]]:
    """(Family, way) of all that the installed release opens."""
    return [(name, way) for name, row in rows.items() for way in row.here]


# Opening.


def open_model(name: str, way: str) -> Any:
    """A model of a family in float64, opened in one of its ways."""
    model = tiny_models.MODELS[name]().double()
    if way == ENCODER:
        return helpers.hooked_encoder(model)
    if way == TRANSFORMER:
        own = {"Gemma 2": _gemma2, "GPT-2": helpers.hooked_gpt2}  # sizes that TransformerLens takes from a name
        return own.get(name, convert)(model)
    from topic_probes import architectures

    architectures.register()
    return helpers.bridge(model)


def convert(model: Any) -> Any:
    """A HookedTransformer by the way of ``from_pretrained``, which knows models by their names on the hub alone.

    Behind that, it reads the configuration of a folder and converts by architecture; so the names are let through.
    """
    from transformer_lens import HookedTransformer, loading_from_pretrained

    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(loading_from_pretrained, "get_official_model_name", lambda name: name),
        torch.random.fork_rng(),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", DeprecationWarning)
        model.config.save_pretrained(folder)
        helpers.tiny_tokenizer().save_pretrained(folder)
        hooked = HookedTransformer.from_pretrained_no_processing(
            folder, hf_model=model, tokenizer=helpers.tiny_tokenizer(), device="cpu", dtype=torch.float64
        ).eval()
    hooked.tokenizer = None  # it cannot be opened without one; in documents of ids no id is special
    return hooked


def _gemma2(model: Any) -> Any:
    """TransformerLens has the sizes of Gemma 2 by name: the real one's configuration, in the sizes of the tiny one."""
    from transformer_lens import HookedTransformer, HookedTransformerConfig, loading_from_pretrained
    from transformer_lens.pretrained.weight_conversions import convert_gemma_weights

    config = model.config
    settings = {
        **loading_from_pretrained.convert_hf_model_config("google/gemma-2-2b"),
        "d_model": config.hidden_size,
        "d_head": config.head_dim,
        "n_heads": config.num_attention_heads,
        "n_key_value_heads": config.num_key_value_heads,
        "d_mlp": config.intermediate_size,
        "n_layers": config.num_hidden_layers,
        "n_ctx": config.max_position_embeddings,
        "d_vocab": config.vocab_size,
        "window_size": config.sliding_window,
        "attn_types": ["local", "global"],
        "attn_scores_soft_cap": config.attn_logit_softcapping,
        "output_logits_soft_cap": config.final_logit_softcapping,
        "rotary_dim": config.head_dim,
        "tokenizer_name": None,
        "dtype": torch.float64,
        "device": "cpu",
    }
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        hooked = HookedTransformer(HookedTransformerConfig.from_dict(settings))
    weights = {name: value.detach() for name, value in convert_gemma_weights(model, hooked.cfg).items()}
    hooked.load_state_dict(weights, strict=False)
    return hooked.eval()


# Measuring.

LENGTHS = (12, 9, 10)
"""Rows of one padded batch; the longest is longer than every window. No row has as many pads as a window has keys:
transformers makes NaN of a query that sees pads alone in float64 (in float32 it does not)."""

TOPICS = {5: [0], 6: [0], 7: [0], 8: [1], 9: [1], 10: [1], 11: [0, 1], 12: [2], 13: [2]}


@dataclass(frozen=True)
class Measured:
    """What one model gave."""

    pattern_difference: float
    """Largest difference to transformers' own ``output_attentions`` on the same padded batch, over real tokens."""
    sum_difference: float
    """Largest relative difference of a head's sums by class to those of four loops over transformers' attentions."""
    counts_agree: bool
    sees: tuple[str, ...]
    n_heads: int


def documents() -> list[list[int]]:
    generator = np.random.default_rng(0)
    return [generator.integers(3, 20, size=length).tolist() for length in LENGTHS]


def padded(pad_id: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The documents as one batch of ids and its mask, padded on the right."""
    ids = torch.full((len(LENGTHS), max(LENGTHS)), pad_id)
    mask = torch.zeros_like(ids)
    for row, document in enumerate(documents()):
        ids[row, : len(document)] = torch.tensor(document)
        mask[row, : len(document)] = 1
    return ids, mask


def run(model: Any, way: str, ids: torch.Tensor, mask: torch.Tensor) -> None:
    name = "one_zero_attention_mask" if way == ENCODER else "attention_mask"
    with torch.no_grad():
        model(ids, **{name: mask})


STACKS = {
    "encoder_attentions": "encoder_blocks.{}.attn.hook_pattern",
    "decoder_attentions": "decoder_blocks.{}.self_attn.hook_pattern",
    "cross_attentions": "decoder_blocks.{}.cross_attn.hook_pattern",
}
"""What transformers calls the attentions of an encoder-decoder -> the hooks of their layers."""


def attentions(reference: Any, ids: torch.Tensor, **options: Any) -> dict[str, torch.Tensor]:
    """Hook name -> [batch, head, query_pos, key_pos] as transformers hands it out, in the order of ``Row.sees``."""
    with torch.no_grad():
        output = reference(ids, output_attentions=True, **options)
    if reference.config.is_encoder_decoder:
        stacks = [(hook, getattr(output, attribute)) for attribute, hook in STACKS.items()]
    else:
        stacks = [("blocks.{}.attn.hook_pattern", output.attentions)]
    return {hook.format(layer): one for hook, layers in stacks for layer, one in enumerate(layers)}


def pattern_difference(model: Any, way: str, reference: Any) -> float:
    ids, mask = padded(reference.config.pad_token_id or 0)
    found: dict[str, torch.Tensor] = {}

    def keep(tensor: torch.Tensor, hook: Any) -> None:
        found.setdefault(hook.name, tensor.detach().clone())

    expected = attentions(reference, ids, attention_mask=mask)
    hooks = [(name, keep) for name in expected]
    with model.hooks(fwd_hooks=hooks):
        run(model, way, ids, mask)
    differences = [
        float((found[name][row, :, :length, :length] - of_layer[row, :, :length, :length]).abs().max())
        for name, of_layer in expected.items()
        for row, length in enumerate(LENGTHS)
    ]
    return max(differences)


def may_see(sees: str) -> Callable[[int, int], bool]:
    """What is declared, as a rule for the loops."""
    if sees in (BIDIRECTIONAL, CROSSING):
        return lambda query, key: True
    window = int(sees.rpartition(" of ")[2]) if "window" in sees else None
    return lambda query, key: key <= query and (window is None or query - key < window)


def expected_sums(reference: Any, sees: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """[layer, head, column] sums and [layer, column] counts, by loops over each document on its own.

    A decoder after an encoder reads its start, which is no word, and all tokens but the last.
    """
    sums: Any = 0.0
    counts: Any = 0
    for ids in documents():
        words = [(token, [at]) for at, token in enumerate(ids)]
        behind = [(token, [at + 1]) for at, token in enumerate(ids[:-1])]
        found = []
        for (name, layer), rule in zip(attentions(reference, torch.tensor([ids])).items(), sees, strict=True):
            in_decoder = name.startswith("decoder")
            options = {
                "words": behind if in_decoder else words,
                "key_words": words if "cross" in name else None,
                "special": [0] if in_decoder and "cross" not in name else [],
            }
            found.append(
                [
                    oracles.attention_by_class(head.tolist(), topics=TOPICS, sees=may_see(rule), **options)
                    for head in layer[0]
                ]
            )
        sums = sums + np.array([[[*one[0].values(), one[2]] for one in layer] for layer in found])
        counts = counts + np.array([[*layer[0][1].values(), layer[0][3]] for layer in found])
    return sums, counts


def measure(name: str, way: str) -> Measured:
    """Open a model, attach to a padded batch, probe a corpus, and compare both with transformers and with the loops."""
    from topic_probes import TopicLabels, attach, probe

    row = ROWS[name]
    reference = tiny_models.MODELS[name]().double()
    model = open_model(name, way)
    labels = TopicLabels.from_dict(TOPICS)
    ids, mask = padded(reference.config.pad_token_id or 0)
    with attach(model, labels) as attached:
        run(model, way, ids, mask)
    results = [attached.result()]
    results.append(probe(model, documents(), labels, batch_size=2, baseline=None, progress=False).attention)
    sums, counts = expected_sums(reference, row.sees)
    differences, agree = [], True
    for result in results:
        found, found_counts = helpers.basic_sums(result.totals)
        differences.append(float((np.abs(found - sums) / np.maximum(np.abs(sums), 1e-30)).max()))
        agree &= bool((found_counts == counts).all())
    return Measured(
        pattern_difference=pattern_difference(model, way, reference),
        sum_difference=max(differences),
        counts_agree=agree,
        sees=tuple(results[0].visibility.values()),
        n_heads=results[0].totals.sums.shape[1],
    )


# Tables.

BEGIN, END = "<!-- models: made by tests/matrix.py --readme -->", "<!-- /models -->"


def readme_table() -> str:
    """The table of the README, with its two markers: rows models, columns releases of transformer-lens."""
    lines = [
        "| | " + " | ".join(f"transformer-lens {name}" for name in COLUMNS) + " |",
        "|---" * (len(COLUMNS) + 1) + "|",
    ]
    for name, row in ROWS.items():
        if row.readme:
            cells = [", ".join(ways).replace(OURS, f"{BRIDGE} \\*") or "no" for ways in row.ways]
            lines.append(f"| {ALSO.get(name, name)} | " + " | ".join(cells) + " |")
    return "\n".join([BEGIN, *lines, END])


def main() -> None:
    """Print the measured table of the installed release, or the README's."""
    if "--readme" in sys.argv[1:]:
        print(readme_table())
        return
    installed = f"transformer-lens {version('transformer-lens')}"
    lines = [f"| {installed} | opened as | patterns | sums | sees |", "|---|---|---|---|---|"]
    for name, row in ROWS.items():
        for way in row.here or ("no",):
            if way == "no":
                lines.append(f"| {name} | {way} | | | |")
                continue
            found = measure(name, way)
            seen = "; ".join(dict.fromkeys(found.sees))
            lines.append(f"| {name} | {way} | {found.pattern_difference:.0e} | {found.sum_difference:.0e} | {seen} |")
    print("\n".join(lines))
    print("patterns: largest difference to transformers' output_attentions; sums: largest relative one to four loops")


if __name__ == "__main__":
    main()
