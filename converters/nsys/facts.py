"""Reads descriptive tables into the catalog: host, devices, processes, threads, streams, the capture itself.

Of the environment of a recorded process, only variables about its launch are kept, since others may be secrets:

RANK=3  WORLD_SIZE=8  NCCL_DEBUG=INFO  CUDA_VISIBLE_DEVICES=0,1     kept; rank 3 of 8
HF_TOKEN=hf_...  PATH=/usr/bin  NCCL_AUTH_KEY=...                   left out
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from ktrace.model.fitting import whole_of
from ktrace.model.json_text import load_json
from ktrace.report import counted

from .reading import ExportReader, core_track
from .typed_columns import pid_of, row_of, tid_of

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


Row = dict[str, Any]

#: Column of TARGET_INFO_GPU -> fact of a device.
_DEVICE_FACTS = {"uuid": "uuid", "busLocation": "bus_id", "smCount": "sm_count", "totalMemory": "memory"}

#: Key of GpuInfo in TARGET_INFO_SYSTEM_ENV -> the column of TARGET_INFO_GPU with the same value.
_GPU_INFO = {"Id": "id", "Name": "name", "CuDevice": "cuDevice", "PwGpuId": "pwGpuId"}

_SECRETS = ("ENVIRONMENT_VARIABLE", "DeviceEnvironment")

_HOST_FACTS = {"OsDescription": "os", "CpuDescription": "cpu"}

#: A table of facts with more rows than this is left out.
_MOST_ROWS = 1000


def all_rows(reading: ExportReader, table: str) -> list[Row]:
    """Returns the rows of a small table, and counts each as a record with the outcome catalog."""
    columns = reading.database.tables[table]
    rows: list[Row] = []
    report = reading.conversion.report
    for number, values in enumerate(reading.database.rows(table, *columns), 1):
        report.record()
        row, bad_column = row_of(columns, values)
        if bad_column is None:
            rows.append(row)
            report.used(outcome="catalog")
        else:
            report.issue("bad-record", f"{table} row {number}", f"{bad_column} isn't an integer")
    return rows


def rows_like(reading: ExportReader, pattern: str) -> Iterator[Row]:
    """Yields the rows of the small tables whose names match."""
    for table in reading.database.like(pattern):
        yield from all_rows(reading, table)


def session(reading: ExportReader) -> Iterator[Row]:
    """Yields the tool, its settings, the host, the unix time of the session's start."""
    export = _settings(reading, "META_DATA_EXPORT|EXPORT_META_DATA")
    capture = _settings(reading, "META_DATA_CAPTURE")
    facts: Row = {"tool": export.pop("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems")}
    if "EXPORT_PRODUCT_VERSION" in export:
        facts["version"] = export.pop("EXPORT_PRODUCT_VERSION")
    command = [capture[key] for key in capture if key == "PROCESS_0:COMMAND" or key.startswith("PROCESS_0:ARGUMENT_")]
    if command:
        facts["command"] = command
    if "DERIVED_BY" in export:
        facts["description"] = f"A part of {export.get('DERIVED_FROM', 'a capture')}, made by {export['DERIVED_BY']}."
    environment = _environment(reading)
    settings = {"export": export, "capture": capture, "environment": environment}
    facts |= {name: values for name, values in settings.items() if values}
    if not any(reading.database.count(table) for table in reading.database.like("MPI_RANKS")):
        facts |= ranks(environment)
    if details := [*rows_like(reading, "ANALYSIS_DETAILS")]:
        facts["analysis"] = details
    if starts := [*rows_like(reading, "TARGET_INFO_SESSION_START_TIME")]:
        facts["session_start"] = starts[0] if len(starts) == 1 else starts
    yield {"entity": "source", "facts": facts}
    yield from _host(reading)
    yield _clock(starts, export)


def _environment(reading: ExportReader) -> Row:
    """Returns the harmless environment variables, the first process' before the system's, and reports the others."""
    variables: dict[str, str] = {}
    report = reading.conversion.report
    for pattern in ("META_DATA_CAPTURE", "TARGET_INFO_SYSTEM_ENV"):
        for table in reading.database.like(pattern):
            hidden: list[int] = []
            for number, (name, value) in enumerate(reading.database.rows(table, "name", "value"), 1):
                if isinstance(name, str) and name.rpartition(":")[2] in _SECRETS:
                    single = name.rpartition(":")[2] == "ENVIRONMENT_VARIABLE"
                    kept, others = harmless([str(value)] if single else re.split(r"[;\n\0]", str(value)))
                    variables = kept | variables
                    hidden += [number] * bool(others)
            if hidden:
                report.issue("environment", f"{table} row {hidden[0]}", rows=len(hidden))
    return variables


def _settings(reading: ExportReader, pattern: str) -> Row:
    """Returns name -> value of a table of settings without the environment; several values of one name are a list."""
    settings: Row = {}
    for row in rows_like(reading, pattern):
        name, value = row.get("name"), row.get("value")
        if not isinstance(name, str) or name.rpartition(":")[2] in _SECRETS:
            continue
        if name not in settings:
            settings[name] = value
        else:
            before = settings[name]
            settings[name] = [*(before if isinstance(before, list) else [before]), value]
    return settings


def _host(reading: ExportReader) -> Iterator[Row]:
    """Yields the host by TARGET_INFO_SYSTEM_ENV, and the devices listed there if the file has no table of devices."""
    facts: Row = {}
    name = None
    gpus: list[Row] = []
    for row in rows_like(reading, "TARGET_INFO_SYSTEM_ENV"):
        key, value = row.get("name"), row.get("value")
        if key in _SECRETS:
            continue
        if key == "Hostname":
            name = value
        elif key == "GpuInfo":
            gpus = _gpu_info(value)
        elif isinstance(key, str) and value not in (None, "", "{}"):
            facts[_HOST_FACTS.get(key, key)] = value
    if name or facts:
        yield {"entity": "host", "name": name, "facts": facts}
    if not any(reading.database.count(table) for table in reading.database.like("TARGET_INFO_GPU")):
        for gpu in gpus:
            yield _device(reading, gpu, [])


def _gpu_info(text: Any) -> list[Row]:
    try:
        value = load_json(text)
        gpus = value["Gpus"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return []
    if not isinstance(gpus, list):
        return []
    return [
        {_GPU_INFO.get(key, key[:1].lower() + key[1:]): _number(value) for key, value in gpu.items()}
        for gpu in gpus
        if isinstance(gpu, dict)
    ]


def _number(value: Any) -> Any:
    number = whole_of(value) if isinstance(value, str) and value.isdigit() else None
    return value if number is None else number


def _clock(rows: list[Row], export: Row) -> Row:
    """Returns the main clock: ns since the start of the session, unless the export shifted the times."""
    normal = str(export.get("EXPORT_PARAM_TIME_NORMALIZE")).lower() == "true"
    facts: Row = {"kind": "unix" if normal else "session"}
    start = next((row["utcEpochNs"] for row in rows if isinstance(row.get("utcEpochNs"), int)), None)
    shift = _to_int(export.get("EXPORT_PARAM_TIME_SHIFT"))
    if start is not None:
        moved = export.get("EXPORT_CONFIG_TIME_SHIFT")  # both together, since 2023
        at = (start if normal else 0) + shift if moved is None else _to_int(moved)
        facts |= {"at_ns": at, "unix_ns": start}
    if shift:
        facts["shift_ns"] = shift
    return {"entity": "clock", "facts": facts}


def _to_int(text: Any) -> int:
    return whole_of(str(text)) or 0


def devices(reading: ExportReader) -> Iterator[Row]:
    """Yields the GPUs with their ordinals in each process."""
    ordinals = [*rows_like(reading, "TARGET_INFO_CUDA_DEVICE")]
    for row in rows_like(reading, "TARGET_INFO_GPU"):
        yield _device(reading, row, ordinals)
    for row in rows_like(reading, "TARGET_INFO_NVTX_CUDA_DEVICE"):
        if isinstance(row.get("deviceId"), int):
            yield {"entity": "device", "device": row["deviceId"], "name": str(row.get("name")), "facts": {}}


def _device(reading: ExportReader, row: Row, ordinals: list[Row]) -> Row:
    gpu, name = row.pop("id", None), row.pop("name", None)
    number = reading.places.number(gpu) if isinstance(gpu, int) else None
    facts: Row = {"api": "cuda", "vendor": "NVIDIA"}
    if isinstance(gpu, int) and gpu != number:
        facts["gpu"] = gpu
    major, minor = row.pop("computeMajor", None), row.pop("computeMinor", None)
    if major is not None and minor is not None:
        facts["compute_capability"] = f"{major}.{minor}"
    facts |= {_DEVICE_FACTS.get(key, key): value for key, value in row.items() if value != ""}
    if cuda_ids := [{k: v for k, v in row.items() if k != "gpuId"} for row in ordinals if row.get("gpuId") == gpu]:
        facts["cuda_devices"] = cuda_ids
    if number is None:
        word = f"gpu {gpu}" if isinstance(gpu, int) else "device"
        return {"entity": "source", "facts": {word: facts | {"name": name}}}
    return {"entity": "device", "device": number, "name": name, "facts": facts}


def contexts_and_streams(reading: ExportReader) -> Iterator[Row]:
    """Yields contexts, and streams with their priorities and names, of contexts whose device is known."""
    device: dict[tuple[int | None, int], set[int]] = {}
    for process, number, ordinal in reading.places.contexts:
        device.setdefault((process, number), set()).add(ordinal)
    nulls: set[tuple[Any, ...]] = set()
    for table in reading.database.like("TARGET_INFO_CUDA_(CONTEXT_INFO|NULL_STREAM)"):
        for row in all_rows(reading, table):
            place = _place(reading, row)
            if place is None:
                continue
            pid, context, number = place
            device.setdefault((pid, context), set()).add(number)
            nulls.add((pid, context, row.get("nullStreamId", row.get("streamId"))))
            facts = {key: value for key, value in row.items() if key not in ("processId", "contextId", "deviceId")}
            if table.upper().startswith("TARGET_INFO_CUDA_CONTEXT"):
                yield {"entity": "context", "pid": pid, "device": number, "context": context, "facts": facts}
    for row in rows_like(reading, "TARGET_INFO_CUDA_STREAM"):
        yield from _stream(reading, row, device)
    for owner, within, stream in sorted(nulls, key=str):
        for gpu in sorted(device.get((owner, within), ())):
            key = {"pid": owner, "device": gpu, "context": within, "stream": stream}
            yield {"entity": "stream", **key, "facts": {"type": "Default stream"}}
    for row in rows_like(reading, "TARGET_INFO_NVTX_CUDA_(CONTEXT|STREAM)"):
        if (place := _place(reading, row)) is not None:
            pid, context, number = place
            kind = "context" if "streamId" not in row else "stream"
            key = {"pid": pid, "device": number, "context": context, "stream": row.get("streamId")}
            yield {"entity": kind, **key, "name": row.get("name"), "facts": {}}


def _place(reading: ExportReader, row: Row) -> tuple[int | None, int, int] | None:
    """Returns process, context and GPU of a row, None if it has no context or device."""
    pid, context, ordinal = row.get("processId"), row.get("contextId"), row.get("deviceId")
    if not isinstance(context, int) or not isinstance(ordinal, int):
        return None
    return pid, context, reading.places.device_of(pid, ordinal)


def _stream(reading: ExportReader, row: Row, device: dict[tuple[int | None, int], set[int]]) -> Iterator[Row]:
    pid, context, stream = row.get("processId"), row.get("contextId"), row.get("streamId")
    priority = row.get("priority")
    facts: Row = {}
    if isinstance(priority, int):  # a negative 32-bit number is stored unsigned
        facts["priority"] = priority - (1 << 32) if priority >= 1 << 31 else priority
    if isinstance(row.get("flag"), int):
        facts["type"] = reading.enums.word("CUPTI_STREAM_TYPE", row["flag"])
    for number in sorted(device.get((pid, context if context is not None else -1), ())):
        place = {"pid": pid, "device": number, "context": context, "stream": stream}
        yield {"entity": "stream", **place, "facts": facts}


def processes(reading: ExportReader, threads: dict[int, str]) -> Iterator[Row]:
    """Yields the processes that have rows: named after their programs, else their main threads, with their output."""
    seen = {pid_of(number) for number in (*reading.places.threads, *reading.places.processes)}
    facts: dict[int, Row] = {}
    names = {pid_of(number): name for number, name in threads.items() if tid_of(number) == pid_of(number)}
    names = {pid: name for pid, name in names.items() if pid in seen}
    for row in rows_like(reading, "PROCESSES"):
        number, name = row.get("globalPid"), row.get("name")
        pid = pid_of(number) if isinstance(number, int) else _to_int(row.get("pid"))
        if pid in seen and isinstance(name, str):
            names[pid] = PurePosixPath(name).name or name
            if names[pid] != name:
                facts.setdefault(pid, {})["command"] = name
    for row in rows_like(reading, "ProcessStreams"):
        number = row.get("globalPid")
        file, text = (reading.strings.text(row.get(key)) for key in ("filenameId", "contentId"))
        if isinstance(number, int) and text:
            facts.setdefault(pid_of(number), {})[_stream_name(file)] = text
    for row in rows_like(reading, "MPI_RANKS"):
        if isinstance(row.get("globalTid"), int):
            facts.setdefault(pid_of(row["globalTid"]), {})["rank"] = row.get("rank")
    for pid in sorted(names.keys() | facts.keys()):
        yield {"entity": "process", "pid": pid, "name": names.get(pid), "facts": facts.get(pid, {})}
    rank = {about.get("rank") for about in facts.values()} - {None}
    if len(rank) == 1:
        yield {"entity": "source", "facts": {"rank": rank.pop()}}


def _stream_name(file: str | None) -> str:
    name = PurePosixPath(file or "").name
    return next((word for word in ("stdout", "stderr") if word in name), name or "output")


def thread_names(reading: ExportReader, nvtx_names: dict[int, str]) -> dict[int, str]:
    """Returns globalTid -> name; names from NVTX have precedence over the system's."""
    names: dict[int, str] = {}
    for row in rows_like(reading, "ThreadNames"):
        name = reading.strings.text(row.get("nameId"))
        if name and isinstance(row.get("globalTid"), int):
            names[row["globalTid"]] = name
    return names | nvtx_names


def threads(reading: ExportReader, names: dict[int, str]) -> Iterator[Row]:
    """Yields the threads that have rows."""
    for number in sorted(reading.places.threads):
        if number in names:
            main = {"main": True} if tid_of(number) == pid_of(number) else {}
            place = {"pid": pid_of(number), "tid": tid_of(number)}
            yield {"entity": "thread", **place, "name": names[number], "facts": main}


def cores(reading: ExportReader) -> Iterator[Row]:
    """Yields the order of the tracks of cores."""
    for number in sorted(reading.places.cores):
        yield {"entity": "track", "track": core_track(number), "order": number}


def metrics(reading: ExportReader) -> Iterator[Row]:
    """Yields the descriptions of metrics."""
    for row in rows_like(reading, r"TARGET_INFO_\w*METRICS?"):
        name = row.pop("metricName", row.pop("name", None))
        if isinstance(name, str):
            yield {"entity": "metric", "name": name, "facts": row}


def others(reading: ExportReader, tables: Iterable[str]) -> Iterator[Row]:
    """Yields unknown tables without times as facts of the source, if they are small."""
    report = reading.conversion.report
    for table in tables:
        count = reading.database.count(table)
        if count > _MOST_ROWS:
            report.record(count)
            report.issue("unrecognised", table, f"{counted(count, 'row')} without times", count)
        elif count:
            rows = all_rows(reading, table)
            yield {"entity": "source", "facts": {table: rows}}
