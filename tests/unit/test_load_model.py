"""``load_model`` says in one sentence what is wrong with a name, a folder, or the machine, and what to do.

Nothing here opens weights. What only a network can answer is put in the mouth of transformers.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import transformers
from huggingface_hub import errors as hub
from packaging.version import Version

import helpers
from topic_probes import load_model
from topic_probes.models import _loading

needs_bridge = pytest.mark.skipif(not helpers.HAS_BRIDGE, reason="transformer-lens 2.x has no bridges")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint of a BERT with a tokenizer, but for its weights."""
    transformers.BertConfig(vocab_size=50, architectures=["BertForMaskedLM"]).save_pretrained(tmp_path)
    helpers.tiny_tokenizer().save_pretrained(tmp_path)
    return tmp_path


def edit(folder: Path, **fields: Any) -> None:
    path = folder / "config.json"
    content = json.loads(path.read_text(encoding="utf-8")) | fields
    path.write_text(json.dumps({name: value for name, value in content.items() if value is not None}), encoding="utf-8")


def raised(name: Any, kind: type[Exception], match: str) -> str:
    """The message of what load_model raises: of this very kind, and one line."""
    with pytest.raises(kind, match=match) as caught:
        load_model(name)
    assert caught.type is kind
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 420
    return message


def tells(monkeypatch: pytest.MonkeyPatch, error: Exception, *, auto: str = "AutoConfig") -> None:
    """Let transformers raise ``error`` when it is asked for a configuration, or for what ``auto`` says."""

    def fails(*_arguments: Any, **_options: Any) -> None:
        raise error

    monkeypatch.setattr(getattr(transformers, auto), "from_pretrained", fails)


def of_hub(kind: type[Exception], text: str) -> Exception:
    """An error of the hub inside transformers' own, as it comes from there."""
    inner = kind.__new__(kind)  # their constructors ask for a response of one HTTP library or another
    inner.args = (text,)
    outer = OSError(f"{text}\nIf this is a private repository, pass a token (401 Client Error).")
    outer.__cause__ = inner
    return outer


# Places.


@pytest.mark.parametrize("name", ["./nowhere", "../nowhere", "~/nowhere/at/all", "a/b/c", Path("nowhere")], ids=str)
def test_a_folder_that_is_not_there(name: str | Path) -> None:
    raised(name, FileNotFoundError, "there is no model folder .*: give a folder that save_pretrained wrote, or a name")


@pytest.mark.parametrize("name", ["", "two words", "org/", "bert?"])
def test_what_can_be_no_name(name: str) -> None:
    raised(name, FileNotFoundError, "name_or_folder must be a folder or a name such as 'bert-base-uncased', got")


def test_a_file_is_no_folder(folder: Path) -> None:
    raised(folder / "config.json", FileNotFoundError, "is a file: give the folder it lies in")


def test_a_folder_without_configuration(tmp_path: Path) -> None:
    raised(tmp_path, FileNotFoundError, "has no config.json: give a folder that save_pretrained wrote")


# Configurations.


def test_a_configuration_that_is_no_json(folder: Path) -> None:
    (folder / "config.json").write_text("{", encoding="utf-8")
    raised(folder, ValueError, r"holds no model that transformers [\d.]+ can read: .*not a valid JSON file")


@pytest.mark.parametrize("model_type", [None, "newer-than-this"])
def test_a_kind_of_model_that_transformers_does_not_know(folder: Path, model_type: str | None) -> None:
    edit(folder, model_type=model_type)
    raised(folder, ValueError, rf"holds no model that transformers {version('transformers')} can read: ")


def test_a_configuration_without_architecture(folder: Path) -> None:
    edit(folder, architectures=None)
    raised(folder, ValueError, "does not say its architecture: add it to its config.json, such as")


def test_code_of_the_checkpoint_is_not_run_and_nobody_is_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Transformers would wait for an answer at the keyboard."""
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("a question was asked"))
    edit(folder, model_type="strange", auto_map={"AutoConfig": "configuration.Strange"})
    (folder / "configuration.py").write_text("raise SystemExit('it was run')", encoding="utf-8")
    raised(folder, ValueError, "brings code of its own, which load_model does not run")


def test_an_architecture_that_nobody_opens(folder: Path) -> None:
    edit(folder, architectures=["NeverHeardOfForCausalLM"])
    message = raised(folder, ValueError, "is of the architecture NeverHeardOfForCausalLM")
    assert version("transformer-lens") in message
    assert "register an adapter" in message or "transformer-lens 3.9 or newer opens many more" in message


@pytest.mark.skipif(helpers.HAS_BRIDGE, reason="transformer-lens 3 and later open folders")
@pytest.mark.parametrize("architecture", sorted(_loading.OPENED_BY_BRIDGES))
def test_where_no_folder_can_be_opened_the_error_says_which_release_can(folder: Path, architecture: str) -> None:
    edit(folder, architectures=[architecture])
    message = raised(folder, ValueError, f"is of the architecture {architecture}, ")
    assert "opens only models that it lists by their name on the hub, no folders" in message
    assert message.endswith("transformer-lens 3.9 or newer opens it")


@needs_bridge
def test_the_release_that_errors_name_opens_what_they_say() -> None:
    """The list that is read where there are no bridges is checked where there are."""
    _loading.register()
    assert Version(version("transformer-lens")) >= Version(_loading._WITH_BRIDGES)
    assert [one for one in sorted(_loading.OPENED_BY_BRIDGES) if not _loading._has_bridge(one)] == []


# Parts that are missing.


def test_a_folder_without_tokenizer(tmp_path: Path) -> None:
    """Some releases of transformers make one up, which knows no word."""
    transformers.BertConfig(architectures=["BertForMaskedLM"]).save_pretrained(tmp_path)
    raised(tmp_path, FileNotFoundError, r"has a model and no tokenizer: put one there by tokenizer\.save_pretrained")


@needs_bridge
@pytest.mark.parametrize("weights", [None, b"not weights"])
def test_a_folder_without_weights(folder: Path, weights: bytes | None) -> None:
    if weights is not None:
        (folder / "model.safetensors").write_bytes(weights)
    raised(folder, FileNotFoundError, "has a configuration and no weights that transformers can read")


@pytest.mark.parametrize(
    ("package", "error"),
    [
        ("sentencepiece", ImportError("LlamaTokenizer requires the SentencePiece library but it was not found here.")),
        ("tiktoken", ValueError("Couldn't instantiate a backend.\nYou need to have sentencepiece or tiktoken.")),
        ("protobuf", ImportError("\nT5Converter requires the protobuf library but it was not found.")),
        ("sacremoses", ImportError("You need to install sacremoses", name="sacremoses")),
    ],
)
def test_a_package_that_is_not_installed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, package: str, error: Exception
) -> None:
    """By its name for pip, whatever error says so; packages that are there are not named."""
    module = {"protobuf": "google.protobuf"}.get(package, package)
    monkeypatch.setattr(_loading, "_is_installed", lambda name: name != module)
    tells(monkeypatch, error, auto="AutoTokenizer")
    raised(folder, ModuleNotFoundError, f"needs the package {package}, which is not installed: pip install {package}$")


def test_installed_is_what_can_be_found() -> None:
    """Also for a module inside a package, whether the package is there or not."""
    found = [_loading._is_installed(name) for name in ("json", "json.decoder", "no_such_thing", "no_such_thing.part")]
    assert found == [True, True, False, False]


# The hub.


def test_a_name_without_network() -> None:
    """This is transformers' own error: the suite runs offline."""
    raised(
        "no-such-org/no-such-model",
        FileNotFoundError,
        "no-such-org/no-such-model is not on this machine and cannot be fetched without a network: give a folder",
    )


@pytest.mark.parametrize(
    "error", [ConnectionError("refused"), TimeoutError("too long"), OSError("Max retries exceeded")]
)
def test_a_network_that_fails(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    tells(monkeypatch, error)
    raised("org/model", FileNotFoundError, "cannot be fetched without a network")


def test_a_name_that_is_not_on_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub calls such a request unauthorised, and speaks of gated models; still it is a wrong name."""
    told = (
        "Please make sure you specified the correct name. If it is private or gated, make sure you are authenticated."
    )
    tells(monkeypatch, of_hub(hub.RepositoryNotFoundError, told))
    raised(
        "bert-base-uncasd", FileNotFoundError, "there is no model 'bert-base-uncasd', as a folder or on the hub: check"
    )


def test_a_gated_model(monkeypatch: pytest.MonkeyPatch) -> None:
    tells(monkeypatch, of_hub(hub.GatedRepoError, "Access to model is restricted."))
    raised(
        "org/model", PermissionError, "org/model is gated: accept its conditions on its page on the hub, then log in"
    )


def test_a_page_on_the_hub_that_holds_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    tells(monkeypatch, of_hub(hub.EntryNotFoundError, "org/model has no file named config.json. And a page more."))
    raised(
        "org/model", FileNotFoundError, "there is no model 'org/model' that transformers can read: org/model has no "
    )
