"""What annotations of engines state: the phase, the requests, the tokens."""

from __future__ import annotations

import pytest

from ktrace.errors import UsageError
from ktrace.naming.phases import Phase, attended, phase_of, phase_test

#: Annotation -> phase, requests and tokens of the context, of the generation; all tokens.
STATED: dict[str, tuple[Phase, int | None]] = {
    "execute_context_2(14721)_generation_0(0)": (Phase("prefill", 2, 14721, 0, 0), 14721),
    "execute_context_0(0)_generation_64(64)": (Phase("decode", 0, 0, 64, 64), 64),
    "execute_context_0(0)_generation_32(128)": (Phase("decode", 0, 0, 32, 128), 128),
    "execute_context_2(6144)_generation_3(3)": (Phase("mixed", 2, 6144, 3, 3), 6147),
    "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)": (
        Phase("decode", 0, 0, 32, 32),
        32,
    ),
    "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)": (
        Phase("mixed", 9, 8155, 37, 37),
        8192,
    ),
    "step[EXTEND bs=15 toks=15360]": (Phase("prefill", 15, 15360, 0, 0), 15360),
    "step[EXTEND bs=2 toks=12 c_sqsq=80 c_sqsk=120 c_sk=20]": (Phase("prefill", 2, 12, 0, 0), 12),
    "step[DECODE bs=32]": (Phase("decode", 0, 0, 32, 32), 32),
    "step[DECODE bs=64 g_sq=128 g_sqsq=256 g_sqsk=262144 g_sk=131072]": (Phase("decode", 0, 0, 64, 128), 128),
    "step[MIXED bs=2 c=1 g=1 c_sq=5 c_sk=8 c_sqsq=25 c_sqsk=40 g_sq=1 g_sk=12 g_sqsq=1 g_sqsk=12]": (
        Phase("mixed", 1, 5, 1, 1),
        6,
    ),
    "step[MIXED bs=2]": (Phase("mixed", 2), None),
    "step[VERIFY bs=4]": (Phase("verify", 0, 0, 4, None), None),
    "prefill[bs=2 tok=14721 ctx=[7803, 6918] sqsq=108745533 sqsk=119025333 sk=16221]": (
        Phase("prefill", 2, 14721, 0, 0),
        14721,
    ),
    "prefill[bs=6 tok=17408 ctx=[4096, 4096, 4096]...+3]": (Phase("prefill", 6, 17408, 0, 0), 17408),
    "decode[bs=117/128 tok=117 d=117]": (Phase("decode", 0, 0, 117, 117), 117),
    "decode[bs=32 tok=128 d=32 spec=3]": (Phase("decode", 0, 0, 32, 128), 128),
    "decode[bs=128 tok=384 p=2 d=126 sqsq=132612 sqsk=1114112 sk=258048 tbo=1]": (
        Phase("mixed", 2, 258, 126, 126),
        384,
    ),
    "eager_decode[bs=32]": (Phase("decode", 0, 0, 32, 32), 32),
    "[Executor] _forward_step 60000: 0 ctx reqs, 0 ctx tokens, 32 gen reqs": (Phase("decode", 0, 0, 32, 32), 32),
    "[Executor] _forward_step 7: 2 ctx reqs, 3 gen reqs": (Phase("mixed", 2, None, 3, 3), None),
    "[Executor] _forward_step: 1 ctx reqs, 0 gen reqs": (Phase("prefill", 1, None, 0, 0), None),
    "prefill": (Phase("prefill"), None),
    " Decode_12": (Phase("decode"), None),
    "decode step 3": (Phase("decode"), None),
}


@pytest.mark.parametrize("name", STATED)
def test_what_is_stated(name: str) -> None:
    expected, tokens = STATED[name]
    found = phase_of(name)
    assert found == expected
    assert found.tokens == tokens


@pytest.mark.parametrize(
    "name",
    [
        "execute_context_0(0)_generation_0(0)",  # a batch without requests
        "step[IDLE bs=0]",
        "ProfilerStep#42",
        "step[3]",
        "decode_attention_kernel",
        "prefill_wrapper.plan",
        "aten::decode",
        "decoder",
        "capture_32_decode",
        "video decode",
        "execute_context_menu",
        "[Executor] _prepare_draft_requests",
        "step[DECODE bs=" + "9" * 400 + "]",
        "",
    ],
)
def test_what_states_nothing(name: str) -> None:
    found = phase_of(name)
    assert found is None or found == Phase("decode", 0, 0, None, None)


def test_a_wanted_phase_and_batch() -> None:
    assert [phase_test("decode")(name) for name in ("step[DECODE bs=32]", "step[EXTEND bs=1 toks=4]")] == [True, False]
    assert [phase_test("decode:8")(name) for name in ("step[DECODE bs=32]", "step[DECODE bs=8]")] == [False, True]
    for wanted in ("decoding", "decode:", "decode:x", ""):
        with pytest.raises(UsageError, match="there is no phase"):
            phase_test(wanted)


def test_what_requests_attend_to() -> None:
    """One prompt of 6 tokens of which 2 are in the cache already, and two requests that read 9 and 5 tokens."""
    name = "execute_6_context_1(sq4sk6sqsq16sqsk24)_generation_2(sq2sk14sqsq2sqsk14)"
    pairs = sum(1 for query in range(4) for key in range(6) if key < query + 2) + 4 / 2  # the diagonal counts as half
    assert attended(name) == (6, 20, 2 * pairs + 2 * (9 + 5) - 2)
    for other in (
        "execute_context_2(14721)_generation_3(3)",
        "step[DECODE bs=64]",
        "execute_6_context_1(sq4sk6)_generation_2(sq2sk14)",
        "execute_0_context_0(sq0sk0sqsq0sqsk0)_generation_0(sq0sk0sqsq0sqsk0)",
        "execute_6_context_1(sq4sk2sqsq16sqsk8)_generation_0(sq0sk0sqsq0sqsk0)",
    ):
        assert attended(other) is None
