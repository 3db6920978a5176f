"""What ``probe`` returns: attention, embedding, words in context if asked for, and the same of the twin."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._folders import files_below, put_back, read_json, whole_folder
from .._html import html_table
from .._saved import require_inside
from ..statistics import AttentionResult, EmbeddingResult
from ..statistics._attention_result import HEADLINE_COLUMNS
from ..statistics._topic_heads import permutations_wanted
from ..topics import TopicLabels, TopicModel

if TYPE_CHECKING:
    import pandas as pd

_LIST = "report.json"
"""Names the parts of a saved report, so that a missing one is noticed."""
_PART = re.compile(r"\w[\w.-]*")


@dataclass(frozen=True, eq=False)
class ProbeReport:
    """Attention and embedding of one model, and of its untrained twin over the same documents."""

    attention: AttentionResult
    embedding: EmbeddingResult | None
    """None where fewer than two labelled words are one token of the vocabulary."""
    baseline: ProbeReport | None = None
    """The same of the architecture with freshly initialised weights; None if it was not asked for."""
    contextual: EmbeddingResult | None = None
    """Words in context, layer by layer, from ``probe_contextual``; None unless put there by ``with_contextual``."""

    @property
    def models(self) -> dict[str, ProbeReport]:
        """Return ``{"trained": self}``, with ``"untrained"`` where there is a baseline."""
        return {"trained": self} if self.baseline is None else {"trained": self, "untrained": self.baseline}

    def headline_frame(self, estimator: str = "pooled", *, level: float = 0.95) -> pd.DataFrame:
        """Return the headline table: one row per model with ``same_topic cross_topic ratio ratio_low ratio_high``."""
        import pandas as pd

        rows = [
            {"model": name, **report.attention.headline(estimator, level=level).to_dict()}
            for name, report in self.models.items()
        ]
        return pd.DataFrame(rows)

    def estimators_frame(self, *, level: float = 0.95, q: float = 0.05) -> pd.DataFrame:
        """Return the headline table by every estimator: is it topics, or the mix of documents, distance, frequency?

        One row per model and estimator: the columns of :meth:`headline_frame`, ``n_heads``,
        ``n_topic_heads``, those with a q-value of at most ``q`` (their number is 0 without permutations),
        ``n_permutations``, and ``permutations_wanted``: with so many, heads could be found that none of them reached
        (NaN if no head is missed for that reason).
        """
        return self._estimators_frame(self._head_frames(), level=level, q=q)

    def _head_frames(self) -> dict[str, dict[str, pd.DataFrame]]:
        """Return model -> estimator -> ``AttentionResult.to_frame``."""
        return {
            name: {estimator: report.attention.to_frame(estimator) for estimator in report.attention.estimators}
            for name, report in self.models.items()
        }

    def _estimators_frame(
        self, heads_of: Mapping[str, Mapping[str, pd.DataFrame]], *, level: float = 0.95, q: float = 0.05
    ) -> pd.DataFrame:
        """Return :meth:`estimators_frame`, of tables of heads that somebody needs for more than that."""
        import pandas as pd

        rows = []
        for name, report in self.models.items():
            for estimator in report.attention.estimators:
                heads: Any = heads_of[name][estimator]
                n_permutations = report.attention.n_permutations
                wanted = permutations_wanted(heads, n_permutations, q)
                rows.append(
                    {
                        "model": name,
                        **report.attention.headline(estimator, level=level).to_dict(),
                        "n_heads": len(heads),
                        "n_topic_heads": int((heads["q_value"] <= q).sum()),
                        "n_permutations": n_permutations,
                        "permutations_wanted": float("nan") if wanted is None else float(wanted),
                    }
                )
        return pd.DataFrame(rows)

    def __sub__(self, other: Any) -> Any:
        """Refuse, and say what can be subtracted."""
        raise TypeError("reports cannot be subtracted, their attention can: report.attention - other.attention")

    def to_frame(self, estimator: str = "pooled") -> pd.DataFrame:
        """Return the heads of all models: the columns of ``AttentionResult.to_frame`` and ``model``."""
        import pandas as pd

        frames = [report.attention.to_frame(estimator).assign(model=name) for name, report in self.models.items()]
        return pd.concat(frames, ignore_index=True)

    def embedding_frame(self, estimator: str = "pooled") -> pd.DataFrame:
        """Return the embedding measures of all models: the columns of ``EmbeddingResult.to_frame`` and ``model``."""
        import pandas as pd

        frames = [
            report.embedding.to_frame(estimator).assign(model=name)
            for name, report in self.models.items()
            if report.embedding is not None
        ]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    def with_contextual(self, trained: EmbeddingResult, untrained: EmbeddingResult | None = None) -> ProbeReport:
        """Return this report with what ``probe_contextual`` found, and found in the untrained twin.

        Examples:
            trained = topic_probes.probe_contextual(model, documents, labels)
            untrained = topic_probes.probe_contextual(model, documents, labels, weights="untrained")
            report = report.with_contextual(trained, untrained)
            report.plot_layers()

        Raises:
            ValueError: if a result has no layers, is of another model, of other weights or labels, or there is no
                baseline to put the second into.
        """
        for name, result in (("trained", trained), ("untrained", untrained)):
            if result is None:
                continue
            if result.layers is None:
                raise ValueError(f"{name} must be a result of probe_contextual, got one without layers: {result!r}")
            if result.options.get("weights") != name:
                raise ValueError(
                    f"{name} must be a result of {name} weights, got one of {result.options.get('weights')!r} weights: "
                    f'pass probe_contextual(..., weights="{name}")'
                )
            # A twin of another seed is a twin as well.
            for option in ("labels", "weights_digest") if name == "trained" else ("labels",):
                here, there = (part.options.get(option) for part in (self.attention, result))
                if here != there:
                    raise ValueError(
                        f"{name} must be of the labels and the model of this report, its {option} is {there} there and "
                        f"{here} here: call probe_contextual with what this report was made of"
                    )
        baseline = self.baseline
        if untrained is not None:
            if baseline is None:
                raise ValueError(
                    "untrained needs a report with a baseline, and this one has none: probe with baseline=..., "
                    "or leave untrained out"
                )
            baseline = replace(baseline, contextual=untrained)
        return replace(self, contextual=trained, baseline=baseline)

    def contextual_frame(self, estimator: str = "pooled", *, level: float = 0.95) -> pd.DataFrame:
        """Return words in context of all models: the columns of ``EmbeddingResult.to_frame`` and ``model``."""
        import pandas as pd

        frames = [
            report.contextual.to_frame(estimator, level=level).assign(model=name)
            for name, report in self.models.items()
            if report.contextual is not None
        ]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    def plot_layers(self, ax: Any = None) -> Any:
        """Draw the centred cosine of same- and cross-topic words over the layers, within documents; return the Axes.

        Raises:
            ValueError: if the report has no words in context.
        """
        from ..report import plot_layers

        if self.contextual is None:
            raise ValueError(
                "plot_layers needs words in context, and this report has none: call "
                "report.with_contextual(topic_probes.probe_contextual(model, documents, labels))"
            )
        return plot_layers(self.contextual_frame("within_document"), ax=ax)

    def plot_heads(self, ax: Any = None, *, estimator: str = "pooled", stack: str | None = None) -> Any:
        """Draw layers x heads, coloured by the log ratio of same- to cross-topic attention; return the Axes.

        Of an encoder-decoder there is one panel a stack (the first one's Axes is returned), or that of ``stack=``.
        """
        from ..report import plot_heads

        return _say(estimator, plot_heads(self.attention.to_frame(estimator), ax=ax, stack=stack))

    def plot_forest(self, ax: Any = None, *, estimator: str = "distance_matched", n_heads: int = 20) -> Any:
        """Draw the heads whose ratio is most surely above 1, each with its interval; return the Axes."""
        from ..report import plot_forest

        return _say(estimator, plot_forest(self.attention.to_frame(estimator), ax=ax, n_heads=n_heads))

    def plot_distance(
        self, layer: int | None = None, head: int | None = None, ax: Any = None, *, stack: str | None = None
    ) -> Any:
        """Draw attention against distance: of one head, of a layer's heads, or of all on average; return the Axes.

        Of an encoder-decoder that is over all stacks, or over ``stack`` alone (``"encoder"``, ``"decoder"``,
        ``"cross"``).
        """
        from ..report import plot_distance

        frame: Any = self.attention.distance_frame()
        if stack is not None and stack not in set(frame.get("stack", ())):
            raise ValueError(f"stack must be one that was measured, got {stack!r}: see the column stack of to_frame()")
        for name, wanted in (("stack", stack), ("layer", layer), ("head", head)):
            if wanted is not None:
                frame = frame[frame[name] == wanted]
        return plot_distance(frame, ax=ax)

    def plot_classes(self, ax: Any = None, *, estimator: str = "pooled") -> Any:
        """Draw same- against cross-topic attention, trained against untrained; return the Axes."""
        import pandas as pd

        from ..report import plot_classes

        rows = [
            {
                "model": name,
                "pair_class": pair_class,
                "mean": headline[pair_class],
                "low": headline[f"{pair_class}_low"],
                "high": headline[f"{pair_class}_high"],
            }
            for name, report in self.models.items()
            for headline in [report.attention.headline(estimator).to_dict()]
            for pair_class in ("same_topic", "cross_topic")
        ]
        tidy = pd.DataFrame(rows)
        return plot_classes(tidy, ax=ax)

    def to_html(
        self,
        path: str | PathLike,
        *,
        labels: TopicLabels | None = None,
        topics: TopicModel | None = None,
        examples: Sequence[Mapping[str, Any]] | None = None,
        title: str | None = None,
    ) -> Path:
        """Write the report as one HTML file that needs no network, and return its path.

        The page has the headline by every estimator, trained against untrained; a map of heads, each of which opens
        with its numbers, its attention against distance and from topic to topic, and example passages; topics;
        embeddings; how it was computed; and every table as CSV. It stays below 5 MB: what it leaves out of models with
        thousands of heads, it names.

        Args:
            path: the file; an earlier one is replaced, a missing folder is made.
            labels: the labels that the report was made with: then topics have words.
            topics: the topic model that they are from: then topics have top words and coherence.
            examples: passages to look at, from :func:`topic_probes.example_passages`.
            title: of the page; made from the model's name unless given.

        Raises:
            IsADirectoryError: if ``path`` is a folder.
            TypeError: if labels, topics or examples are something else.
            ValueError: if they do not belong to this report.

        Examples:
            heads = report.attention.to_frame("distance_matched").nlargest(4, "ratio_low")
            examples = topic_probes.example_passages(model, documents, labels, heads=heads)
            report.to_html("report.html", labels=labels, topics=topics, examples=examples)
        """
        from .. import __version__
        from ..report._page import write_page
        from ._page_tables import page_tables

        tables = page_tables(self, labels, topics)
        return write_page(path, title=title, version=__version__, passages=examples, **tables)

    def merge(self, other: ProbeReport) -> ProbeReport:
        """Return the report of both corpora, as if they had been probed at once.

        The embedding does not depend on the corpus and is kept.

        Raises:
            ValueError: if the two were measured in different ways, or only one of them has a baseline.
        """
        if not isinstance(other, ProbeReport):
            raise TypeError(f"a report can be merged with a ProbeReport, got {type(other).__name__}")
        if (self.baseline is None) != (other.baseline is None):
            raise ValueError("only reports measured alike can be merged: one has a baseline, the other has none")
        baseline = None
        if self.baseline is not None and other.baseline is not None:
            baseline = self.baseline.merge(other.baseline)
        if (self.contextual is None) != (other.contextual is None):
            raise ValueError("only reports measured alike can be merged: one has words in context, the other has none")
        contextual = None
        if self.contextual is not None and other.contextual is not None:
            contextual = self.contextual.merge(other.contextual)
        return ProbeReport(self.attention.merge(other.attention), self.embedding, baseline, contextual)

    def save(self, folder: str | PathLike) -> None:
        """Write the report to a folder, whole or not at all; an earlier report there is replaced.

        Raises:
            FileExistsError: if ``folder`` holds something that is not a report, or something besides it.
        """
        with whole_folder(folder, kind="a saved report", replaceable=_is_report_alone) as new:
            self._write(new)

    def _write(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.attention.save(folder / "attention")
        if self.embedding is not None:
            self.embedding.save(folder / "embedding")
        if self.contextual is not None:
            self.contextual.save(folder / "contextual")
        if self.baseline is not None:
            self.baseline._write(folder / "baseline")
        parts = sorted(path.name for path in folder.iterdir())
        (folder / _LIST).write_text(
            json.dumps({"kind": "report", "format": 1, "parts": parts}) + "\n", encoding="utf-8"
        )

    @classmethod
    def load(cls, folder: str | PathLike) -> ProbeReport:
        """Return a report that :meth:`save` wrote.

        Raises:
            FileNotFoundError: if ``folder`` holds none, or a part of it is missing.
            ValueError: if it is damaged, or a part of it is a link that leads out of it.
        """
        source = Path(folder).expanduser()
        parts = _read_list(source)
        for part in ("attention", *parts):
            require_inside(source / part, source)
        if "baseline" in parts and "baseline" in _read_list(source / "baseline"):
            raise ValueError(f"{folder} is a damaged report (its baseline has a baseline): save again")
        return cls(
            attention=AttentionResult.load(source / "attention"),
            embedding=EmbeddingResult.load(source / "embedding") if "embedding" in parts else None,
            baseline=cls.load(source / "baseline") if "baseline" in parts else None,
            contextual=EmbeddingResult.load(source / "contextual") if "contextual" in parts else None,
        )

    def _repr_html_(self) -> str:
        """Return the headline numbers by every estimator, for a notebook."""
        import pandas as pd

        rows = [
            {"model": name, **{key: headline[key] for key in HEADLINE_COLUMNS}}
            for name, report in self.models.items()
            for estimator in report.attention.estimators
            for headline in [report.attention.headline(estimator).to_dict()]
        ]
        return html_table(pd.DataFrame(rows), f"ProbeReport of {self.attention.options.get('model', 'a model')}")

    def __repr__(self) -> str:
        twin = "no baseline" if self.baseline is None else f"untrained: {self.baseline.attention!r}"
        context = "" if self.contextual is None else f"{self.contextual!r}, "
        return f"ProbeReport({self.attention!r}, {self.embedding!r}, {context}{twin})"


def _read_list(folder: Path) -> list[str]:
    """Return the names of a report's parts, each of them the name of something in the folder."""
    if not folder.exists():
        put_back(folder)
    if not (folder / _LIST).is_file():
        raise FileNotFoundError(f"{folder} is not a saved report: it has no {_LIST}")
    require_inside(folder / _LIST, folder)
    said = read_json(folder / _LIST)
    if said is None or said.get("kind") != "report" or said.get("format") != 1:
        raise ValueError(f"{folder / _LIST} is damaged, or was written by another version: save again")
    parts = said.get("parts")
    if not isinstance(parts, list) or not all(isinstance(part, str) and _PART.fullmatch(part) for part in parts):
        raise ValueError(f"{folder / _LIST} is damaged (its parts must be names, got {parts!r:.80}): save again")
    return parts


def _is_report_alone(folder: Path) -> bool:
    """Whether a folder holds a report and nothing else, at any depth."""
    report = re.compile(
        rf"(baseline/)*({_LIST}|(attention|embedding|contextual)/(description\.json|arrays\.safetensors))"
    )
    return (folder / _LIST).is_file() and all(report.fullmatch(path) for path in files_below(folder))


def _say(estimator: str, ax: Any) -> Any:
    """Put into the title of a picture which pairs it compares."""
    for place in ("left", "center"):
        title = ax.get_title(loc=place)
        if title:
            ax.set_title(f"{title}, {estimator.replace('_', ' ')}", loc=place)
    return ax
