"""The paper's claims in the order of the report. One more: a Claim in the file of its study."""

from .ablations import ABLATION_CLAIMS
from .benchmarks import BENCHMARKS
from .locality import LOCALITY_CLAIMS
from .mqar import MQAR
from .speed import SPEED
from .zero_shot import ZERO_SHOT_CLAIMS

CLAIMS = {
    "Time and memory": SPEED,
    "Locality and recall": LOCALITY_CLAIMS,
    "Associative recall": MQAR,
    "Ablations": ABLATION_CLAIMS,
    "Benchmarks": BENCHMARKS,
    "Zero-shot": ZERO_SHOT_CLAIMS,
}
"""By heading."""
