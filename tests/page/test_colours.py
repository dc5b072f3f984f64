"""The colours of charts are told apart by people who lack a cone."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from colours import hexadecimal, lab, linear
from conftest import ROOT

#: How colours look to people who lack a cone: Machado, Oliveira, Fernandes 2009, severity 1, on linear RGB.
BLINDNESS = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("blindness", BLINDNESS)
def test_colours_are_told_apart_without_a_cone(scheme: str, blindness: str) -> None:
    """Any two of a chart are at least 15 apart in CIE L*a*b*, where 2 can just be seen."""
    style = (ROOT / "ktrace/page/page.css").read_text("utf-8")
    light, dark = style.split("@media (prefers-color-scheme: dark)")[:2]
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", light if scheme == "light" else dark.split("\n}\n")[0]))
    names = [*(f"k{number}" for number in range(1, 7)), "communication", "copies", "rest", "idle"]
    seen = {name: lab(np.array(BLINDNESS[blindness]) @ linear(hexadecimal(colours[name]))) for name in names}
    for one, other in [*itertools.combinations(names, 2)]:
        assert np.linalg.norm(seen[one] - seen[other]) > 15, (one, other)
