"""JSON with the stable keys that `flagplot(1)` documents."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from flagplot.script.build import write_dependency
from flagplot.view.drift import Drift
from flagplot_wire.job import Forecast, Job
from flagplot_wire.policy import USE_PARENT, FairshareRow, PriorityRow
from flagplot_wire.replies import NodeView, UsageReport
from flagplot_wire.steps import Step
from flagplot_wire.telemetry import GpuProcess


def print_json(value: Any) -> None:
    """Print a value, indented."""
    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def job_object(job: Job, forecast: Forecast | None) -> dict[str, Any]:
    """One job, in Slurm's names where it has one. Times are epoch seconds, 0 while not yet."""
    status, spec = job.status, job.spec
    parts = status.allocation.nodes if status.allocation else ()
    pending = forecast if status.state == "PENDING" else None
    return {
        "job_id": job.number,
        "display_id": job.display_id,
        "array_job_id": job.array_number or (job.number if job.is_array else None),
        "array_task_id": job.array_index,
        "array_waiting": status.waiting if job.is_array else None,
        "name": spec.name,
        "user": job.user,
        "state": str(status.state),
        "reasons": reason_objects(pending),
        "nodes": [part.node for part in parts],
        "exit_code": status.exit_code,
        "signal": status.signal,
        "message": status.message,
        "preempted_by": status.preempted_by or None,
        "submit_time": status.submit_time,
        "eligible_time": status.eligible_time,
        "start_time": status.start_time,
        "end_time": status.end_time,
        "expected_start": forecast.start if forecast else None,
        "time_limit_s": job.time_limit_s,
        "partition": spec.partition,
        "account": spec.account,
        "qos": spec.qos,
        "reservation": spec.reservation,
        "licenses": {one.name: one.count for one in spec.request.licenses},
        "priority": status.priority,
        "attempt": status.attempt,
        "restarts": status.restarts,
        "cpus": sum(part.cpus for part in parts) or spec.request.cpus_per_task * max(spec.request.tasks, 1),
        "memory_mib": sum(part.memory_mib for part in parts) or None,
        "gpus": sum(gpu.whole for part in parts for gpu in part.gpus),
        "shards": sum(gpu.shards for part in parts for gpu in part.gpus if not gpu.whole),
        "work_dir": spec.work_dir,
        "standard_output": spec.stdout,
        "standard_error": spec.stderr,
        "comment": spec.comment,
        "mail_type": list(spec.mail_type),
        "mail_user": spec.mail_user,
        "container_image": spec.container_image,
        "dependency": write_dependency(spec.dependency) if spec.dependency else "",
        "requeue": spec.requeue,
        "hold": spec.hold,
        "request": msgspec.to_builtins(spec.request),
        "allocation": msgspec.to_builtins(parts),
    }


def record_object(record: Struct) -> dict[str, Any]:
    """All fields of a record and of the limits in it, those at their defaults too; licenses are counts by name."""
    found = {name: getattr(record, name) for name in record.__struct_fields__}
    found = {name: record_object(value) if isinstance(value, Struct) else value for name, value in found.items()}
    return found | ({"licenses": dict(found["licenses"])} if "licenses" in found else {})


def priority_object(row: PriorityRow) -> dict[str, Any]:
    """The parts of a pending job's priority, in the words of sprio(1); each is weighted already."""
    return {
        "job_id": row.number,
        "display_id": row.job,
        "user": row.user,
        "account": row.account,
        "partition": row.partition,
        "qos": row.qos,
        "priority": row.total,
        "age": row.age,
        "fairshare": row.fairshare,
        "job_size": row.size,
        "partition_part": row.partition_part,
        "qos_part": row.qos_part,
        "tres": row.tres,
        "nice": row.nice,
        "site": row.site,
        "assoc": row.association,
    }


def fairshare_object(row: FairshareRow) -> dict[str, Any]:
    """A line of the fair tree, in the words of sshare(1); an account has an empty user and no factor."""
    return {
        "account": row.account,
        "user": row.user,
        "depth": row.depth,
        "raw_shares": "parent" if row.shares == USE_PARENT else row.shares,
        "norm_shares": row.norm_shares / 1_000_000,
        "raw_usage": row.usage,
        "effective_usage": row.norm_usage / 1_000_000,
        "level_fs": None if row.level is None else row.level / 1_000_000,
        "fairshare": None if row.factor is None else row.factor / 1_000_000,
    }


def usage_object(report: UsageReport, since: int, until: int) -> dict[str, Any]:
    """Who used what, the ended jobs and the limits of one user; what was not measured is null."""
    return {
        "since": since,
        "until": until or None,
        "used": [
            {
                "user": one.user,
                "account": one.account,
                "jobs": one.jobs,
                "cpu_seconds": one.cpu_s,
                "gpu_seconds": one.gpu_s,
            }
            for one in report.used
        ],
        "user": report.user,
        "jobs": [
            {
                "job_id": one.number,
                "display_id": one.display_id,
                "name": one.name,
                "state": one.state,
                "end_time": one.end_time,
                "elapsed_s": one.held_s,
                "cpus": one.cpus,
                "memory_mib": one.memory_mib,
                "gpus": one.gpu_millis / 1_000,
                "cpu_seconds": None if one.cpu_ms is None else one.cpu_ms / 1_000,
                "memory_peak_mib": one.memory_peak_mib,
                "gpu_percent": one.gpu_percent,
            }
            for one in report.ended
        ],
        "limits": [
            {"whose": one.whose, "scope": one.scope, "limit": one.limit, "used": one.used, "most": one.most}
            for one in report.quotas
        ],
    }


def reason_objects(forecast: Forecast | None) -> list[dict[str, Any]]:
    """Why a job is pending, the first reason first."""
    reasons = forecast.reasons if forecast else ()
    return [{"reason": str(one.why), "text": one.text, "jobs": list(one.jobs)} for one in reasons]


def forecast_object(forecast: Forecast | None) -> dict[str, Any]:
    """A forecast by itself; without one every list is empty."""
    return {
        "reasons": reason_objects(forecast),
        "expected_start": forecast.start if forecast else None,
        "never": forecast.never if forecast else "",
        "hints": list(forecast.hints) if forecast else [],
        "planned_nodes": list(forecast.nodes) if forecast else [],
    }


def node_object(view: NodeView) -> dict[str, Any]:
    """One node."""
    node, sample = view.node, view.sample
    inventory = node.inventory
    return {
        "name": node.name,
        "state": view.state,
        "responding": node.responding,
        "reason": node.drain.reason if node.drain else node.down_reason,
        "reason_user": node.drain.who if node.drain else "",
        "reboot": node.drain.reboot if node.drain else "",
        "reason_time": node.drain.since if node.drain else 0,
        "cpus": node.cpus if inventory else None,
        "cpus_used": sum(held.cpus for held in view.held),
        "memory_mib": inventory.memory_mib if inventory else None,
        "memory_used_mib": sum(held.memory_mib for held in view.held),
        "gpus": len(inventory.gpus) if inventory else None,
        "gpus_used": len({index for held in view.held for index, _ in held.gpus}),
        "partitions": list(view.partitions),
        "jobs": [held.number for held in view.held],
        "features": list(inventory.features) if inventory else [],
        "switch": inventory.switch if inventory else "",
        "weight": node.weight,
        "simulated": inventory.simulated if inventory else False,
        "boot_id": inventory.boot_id if inventory else "",
        "notes": list(inventory.notes) if inventory else [],
        "kernel": inventory.kernel if inventory else "",
        "os": inventory.os if inventory else "",
        "driver": inventory.driver if inventory else "",
        "libraries": dict(inventory.libraries) if inventory else {},
        "cpu_percent": sample.cpu_percent if sample else None,
        "load": sample.load / 100 if sample and sample.load is not None else None,
    }


def drift_object(drift: Drift) -> dict[str, Any]:
    """One thing in which nodes differ."""
    return {
        "what": drift.what,
        "group": drift.group,
        "reference": drift.reference,
        "reference_nodes": drift.agreeing,
        "nodes_compared": drift.compared,
        "differing": [{"value": value, "nodes": list(nodes)} for value, nodes in drift.differing],
    }


def gpu_objects(view: NodeView) -> list[dict[str, Any]]:
    """The GPUs of a node."""
    found = []
    readings = {one.index: one for one in view.sample.gpus} if view.sample else {}
    for gpu in view.node.inventory.gpus if view.node.inventory else ():
        holders: list[dict[str, Any]] = [
            {
                "job_id": held.number,
                "display_id": held.display_id,
                "user": held.user,
                "shards": shards,
                "until": held.until,
            }
            for held in view.held
            for index, shards in held.gpus
            if index == gpu.index
        ]
        used = sum(int(holder["shards"]) for holder in holders)
        reading = readings.get(gpu.index)
        state = "free" if not used else ("whole" if used == gpu.shards and len(holders) == 1 else "shared")
        found.append(
            {
                "node": view.node.name,
                "index": gpu.index,
                "type": gpu.type,
                "uuid": gpu.uuid,
                "state": "failed" if gpu.fault else ("unknown" if not view.node.responding else state),
                "shards": gpu.shards,
                "shards_used": used,
                "holders": holders,
                "idle": reading.utilisation == 0 if used and reading and reading.utilisation is not None else None,
                "outsiders": [outsider_object(one) for one in reading.processes if not one.job] if reading else [],
                "utilisation": reading.utilisation if reading else None,
                "memory_used_mib": reading.memory_used_mib if reading else None,
                "memory_total_mib": gpu.vram_mib,
                "temperature_c": reading.temperature_c if reading else None,
                "power_w": reading.power_w if reading else None,
                "links": list(gpu.links),
                "simulated": gpu.simulated,
                "fault": gpu.fault,
            }
        )
    return found


def outsider_object(process: GpuProcess) -> dict[str, Any]:
    """A process on a GPU that no job owns."""
    return {
        "pid": process.pid, "user": process.user, "memory_mib": process.memory_mib, "command": process.command,
    }  # fmt: skip


def step_object(step: Step) -> dict[str, Any]:
    """A step of a job, with its own accounting."""
    return {
        "id": step.id,
        "name": step.name,
        "state": step.state,
        "command": step.command,
        "tasks": step.tasks,
        "nodes": [part.node for part in step.parts],
        "start_time": step.start_time or None,
        "end_time": step.end_time or None,
        "elapsed_s": max(step.end_time - step.start_time, 0) if step.end_time else None,
        "exit_code": step.exit_code,
        "signal": step.signal,
        "cpu_ms": step.cpu_ms,
        "memory_peak_mib": step.memory_peak_mib,
        "message": step.message,
    }
