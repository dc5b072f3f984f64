"""Names that C++ compilers encoded: as c++filt decodes them, and hostile ones."""

from __future__ import annotations

import re
import shutil
import subprocess
import time

import pytest

from ktrace.naming.demangling import demangled
from naming.labelled import names

#: As LLVM and GNU decode them (checked with llvm-cxxfilt and c++filt); bf16 and _Float16 as newer versions do.
DECODED = {
    "_Z5saxpyPdS_S_di": "saxpy(double*, double*, double*, double, int)",
    "_Z5saxpyPdS_S_di.kd": "saxpy(double*, double*, double*, double, int) [clone .kd]",
    "_Z5saxpyPdS_S_di (.kd)": "saxpy(double*, double*, double*, double, int) [clone .kd]",
    "_Z3foov.part.0": "foo() [clone .part.0]",
    "_Z3foov.isra.0.kd": "foo() [clone .isra.0.kd]",
    "_Z1fDF16bDF16_Dv4_f": "f(__bf16, _Float16, float __vector(4))",
    "_ZN5aiter4normIDF16bLi256ELb1EEEvPT_": "void aiter::norm<__bf16, 256, true>(__bf16*)",
    "_ZN12_GLOBAL__N_13fooB5cxx11Ev": "(anonymous namespace)::foo[abi:cxx11]()",
    "_ZTSZ4mainE6kernel": "main::kernel",
    "_ZN2ns3runIJiPKfEEEvDpT_": "void ns::run<int, float const*>(int, float const*)",
    "_ZN2ns3runIJEEEvDpT_": "void ns::run<>()",
    "_Z3runIZ4mainEUlfiE_EvT_": "void run<main::{lambda(float, int)#1}>(main::{lambda(float, int)#1})",
    "_Z3runIZ4mainEUlT_E0_EvS1_": "void run<main::{lambda(auto:1)#2}>(main::{lambda(auto:1)#2})",
    "_Z3runILN2ns4ModeE2ELj4ELm8ELin1EEvv": "void run<(ns::Mode)2, 4u, 8ul, -1>()",
    "_Z3runIXadL_Z4siluIfET_S1_EEEvPf": "void run<&(float silu<float>(float))>(float*)",
    "_Z3runPFvifEPA4_i": "run(void (*)(int, float), int (*) [4])",
    "_ZNK2ns4SizeILi3EEclEi": "ns::Size<3>::operator()(int) const",
    "_ZN2ns4SizeIfEC1IiEET_": "ns::Size<float>::Size<int>(int)",
    "_ZN45_INTERNAL_0b1ac145_14_gguf_kernel_cu_cd2413193runEv": "_INTERNAL_0b1ac145_14_gguf_kernel_cu_cd241319::run()",
    "_ZSt4swapIfENSt9enable_ifIXsr2is3intIT_EE5valueEvE4typeERS1_": (
        "std::enable_if<is::int<float>::value, void>::type std::swap<float>(float&)"
    ),
}

#: Too deep, too long, growing, cut off, wrong, or nothing of C++'s.
HOSTILE = {
    "pointers": "_Z1f" + "P" * 10_000 + "i",
    "nested": "_Z1f" + "I1aI" * 500,
    "classes": "_Z1fI" + "N1a" * 3_000,
    "packs": "_Z1fIJ" + "i" * 7_000 + "EEv" + "DpT_" * 1_500,
    "doubled": "_Z1f1aIiiE" + "".join(f"S_IS{digit}_S{digit}_E" for digit in "0123456789ABCDEFGHIJKLMNOPQR"),
    "references": "_Z1f" + "S_" * 5_000,
    "long": "_Z3foo" + "i" * 20_000,
    "length": "_Z" + "9" * 300 + "a",
    "empty": "_Z",
    "cut": "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_2...",
    "beyond": "_Z9999x",
    "substitution": "_Z1fS9_",
    "template": "_Z1fT5_",
    "braces": "_Z1fIXcl" * 200,
    "openmp": "__omp_offloading_10303_50ad__Z3fooPdS__l12",
    "plain": "ampere_sgemm_128x64_nn",
    "rest": "_Z3foov rest",
}


@pytest.mark.parametrize("name", DECODED)
def test_a_name_is_decoded(name: str) -> None:
    assert demangled(name) == DECODED[name]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_and_takes_no_time(name: str) -> None:
    begin = time.process_time()
    assert demangled(HOSTILE[name]) == HOSTILE[name]
    assert time.process_time() - begin < 1


@pytest.mark.parametrize("name", DECODED)
def test_every_cut_of_a_name_is_a_name_or_stays(name: str) -> None:
    for end in range(1, len(name)):
        assert demangled(name[:end])


def test_real_names_read_as_the_system_reads_them() -> None:
    """A check by another implementation, where there is one that knows all types."""
    program = shutil.which("c++filt") or shutil.which("llvm-cxxfilt")
    mangled = [row["name"] for row in names() if row["name"].startswith("_Z") and "DF16" not in row["name"]]
    assert len(mangled) >= 200
    assert sum(demangled(name) == name for name in mangled) <= 1
    if program is None:
        pytest.skip("no c++filt at hand")
    told = subprocess.run([program], input="\n".join(mangled), capture_output=True, text=True, check=True).stdout
    pairs = [(theirs, demangled(name)) for name, theirs in zip(mangled, told.splitlines(), strict=True)]
    compared = [(theirs, ours) for theirs, ours in pairs if not theirs.startswith("_Z") and "lambda" not in theirs]
    assert len(compared) >= 200
    # They differ in spaces, and in the parentheses of expressions.
    assert not [pair for pair in compared if re.sub("[ ()]", "", pair[0]) != re.sub("[ ()]", "", pair[1])]
