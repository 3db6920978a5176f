"""The demo: topics from Wikipedia, a real encoder and a real decoder, and their untrained twins, offline."""

from ._models import open_minilm, open_smollm2
from ._run import run_demo

__all__ = ["open_minilm", "open_smollm2", "run_demo"]
