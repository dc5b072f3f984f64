"""Filters the environment of a recorded process: keeps variables about its launch, since others may be secrets.

RANK=3  WORLD_SIZE=8  NCCL_DEBUG=INFO  CUDA_VISIBLE_DEVICES=0,1     kept; rank 3 of 8
HF_TOKEN=hf_...  PATH=/usr/bin  NCCL_AUTH_KEY=...                   left out
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

#: Variables of launchers and libraries that contain numbers, names of devices and settings.
_HARMLESS = re.compile(
    r"RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|NODE_RANK|GROUP_RANK|GROUP_WORLD_SIZE|ROLE_RANK|ROLE_WORLD_SIZE"
    r"|OMPI_COMM_WORLD_(RANK|SIZE|LOCAL_RANK|LOCAL_SIZE|NODE_RANK)|PMI_(RANK|SIZE|LOCAL_RANK|LOCAL_SIZE)|PMIX_RANK"
    r"|MPI_LOCAL(RANKID|NRANKS)|MV2_COMM_WORLD_(RANK|SIZE|LOCAL_RANK)"
    r"|SLURM_(PROCID|LOCALID|NTASKS|NODEID|NNODES|JOB_ID|JOBID|STEP_ID|GPUS_PER_TASK)"
    r"|(CUDA|HIP|ROCR|GPU)_VISIBLE_(DEVICES|DEVICE_ORDINAL)|CUDA_DEVICE_ORDER|CUDA_LAUNCH_BLOCKING"
    r"|CUDA_DEVICE_MAX_CONNECTIONS|CUDA_MODULE_LOADING|HSA_OVERRIDE_GFX_VERSION|AMD_SERIALIZE_KERNEL"
    r"|(NCCL|RCCL)_[A-Z0-9_]+|OMP_NUM_THREADS"
)

#: Names and values that may be secrets.
_SECRET_NAME = re.compile(r"TOKEN|SECRET|PASS|AUTH|CRED|PRIVATE|(^|_)KEY($|_)")
_SECRET_VALUE = re.compile(r"(?<![A-Za-z0-9+])(?=[A-Za-z+]*[0-9])(?=[0-9+]*[A-Za-z])[A-Za-z0-9+]{24,}|://[^/\s]*@")

#: The variables with rank and number of ranks by launcher, the most reliable first.
_RANKS = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("PMIX_RANK", "SLURM_NTASKS"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)


def is_harmless(name: str, value: str) -> bool:
    """Whether a variable may be shown."""
    return bool(_HARMLESS.fullmatch(name)) and not (_SECRET_NAME.search(name) or _SECRET_VALUE.search(value))


def harmless(variables: Iterable[str]) -> tuple[dict[str, str], int]:
    """Returns the variables in texts NAME=value or NAME="value" that may be shown, and the number of others."""
    parts = [text.strip("\0\r\n\t ").partition("=") for text in variables]
    parts = [(name, equals, value[1:-1] if re.fullmatch('"[^"]*"', value) else value) for name, equals, value in parts]
    kept = {name: value for name, equals, value in parts if equals and is_harmless(name, value)}
    return kept, sum(bool(name) and name not in kept for name, _, _ in parts)


def ranks(variables: Mapping[str, str]) -> dict[str, int]:
    """Returns the facts `rank` and `world_size` from the first launcher whose variables are both set, else {}."""
    for names in _RANKS:
        values = [variables.get(name, "").strip() for name in names]
        if all(re.fullmatch(r"[0-9]{1,9}", text) for text in values):
            rank, size = map(int, values)
            if rank < size:
                return {"rank": rank, "world_size": size}
    return {}
