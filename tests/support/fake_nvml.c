/* A library with NVML's entry points that the agent uses; FAKE_NVML chooses what is wrong with it.
   FAKE_NVML_PROCESSES names a file with a line `card pid MiB` for each process; -1 MiB: not measured. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, TIMEOUT = 10, GPU_IS_LOST = 15, MISMATCH = 18, NOT_FOUND = 6 };
#define MIB (1ULL << 20)

typedef struct { int parent, mig; } Handle;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } MemoryV2;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } Process;

static Handle cards[2] = {{0, -1}, {1, -1}};
static Handle slices[3] = {{0, 0}, {0, 1}, {0, 2}};

static int is(const char *mode) { const char *now = getenv("FAKE_NVML"); return now && !strcmp(now, mode); }
static int lost(Handle *handle) { return is("lost") && handle->parent == 1; }

int nvmlInitWithFlags(unsigned flags) { return is("not_loaded") ? DRIVER_NOT_LOADED : is("mismatch") ? MISMATCH : OK; }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == GPU_IS_LOST ? "GPU is lost" : "Some error"; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { snprintf(text, size, "550.54.15"); return OK; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = is("mig") ? 1 : 2; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle **handle) { *handle = &cards[index]; return OK; }

int nvmlDeviceGetName(Handle *handle, char *text, unsigned size) {
  if (lost(handle)) return GPU_IS_LOST;
  snprintf(text, size, handle->mig >= 0 ? "NVIDIA A100-SXM4-40GB MIG 1g.5gb" : is("unsupported") ? "NVIDIA GB10" : "NVIDIA H100 80GB HBM3");
  return OK;
}
int nvmlDeviceGetUUID(Handle *handle, char *text, unsigned size) {
  if (lost(handle)) return GPU_IS_LOST;
  snprintf(text, size, handle->mig >= 0 ? "MIG-%d-%d" : "GPU-%d", handle->mig >= 0 ? handle->mig : handle->parent, handle->parent);
  return OK;
}
int nvmlDeviceGetPciInfo_v3(Handle *handle, Pci *pci) {
  if (lost(handle)) return GPU_IS_LOST;
  memset(pci, 0, sizeof *pci);
  snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", 0x3B + handle->parent);
  return OK;
}
int nvmlDeviceGetMinorNumber(Handle *handle, unsigned *minor) { *minor = 4 + handle->parent; return OK; }
int nvmlDeviceGetP2PStatus(Handle *first, Handle *second, int kind, int *status) {
  *status = kind == 2 && is("linked") ? 0 : 5;
  return is("unsupported") ? NOT_SUPPORTED : OK;
}
int nvmlDeviceGetGpuInstanceId(Handle *handle, unsigned *id) { *id = 7 + handle->mig; return handle->mig < 0 ? NOT_SUPPORTED : OK; }
int nvmlDeviceGetComputeInstanceId(Handle *handle, unsigned *id) { *id = 0; return handle->mig < 0 ? NOT_SUPPORTED : OK; }
int nvmlDeviceGetMemoryInfo(Handle *handle, Memory *memory) {
  if (lost(handle)) return GPU_IS_LOST;
  if (is("unsupported")) return NOT_SUPPORTED;
  memory->total = 81559 * MIB; memory->used = 500 * MIB; memory->free = memory->total - memory->used;
  return OK;
}
int nvmlDeviceGetMemoryInfo_v2(Handle *handle, MemoryV2 *memory) {
  if (lost(handle)) return GPU_IS_LOST;
  if (is("unsupported")) return NOT_SUPPORTED;
  memory->total = 81559 * MIB; memory->reserved = 500 * MIB; memory->used = 0; memory->free = 81059 * MIB;
  return OK;
}
int nvmlDeviceGetUtilizationRates(Handle *handle, Utilization *use) {
  if (lost(handle)) return GPU_IS_LOST;
  if (is("unsupported") || is("mig")) return NOT_SUPPORTED;
  use->gpu = is("idle") ? 0 : 37; use->memory = 12;
  return OK;
}
int nvmlDeviceGetTemperature(Handle *handle, int sensor, unsigned *celsius) { *celsius = 41; return lost(handle) ? GPU_IS_LOST : OK; }
int nvmlDeviceGetPowerUsage(Handle *handle, unsigned *milliwatts) { *milliwatts = 123456; return is("unsupported") ? NOT_SUPPORTED : OK; }
int nvmlDeviceGetEnforcedPowerLimit(Handle *handle, unsigned *milliwatts) { *milliwatts = 700000; return is("unsupported") ? NOT_SUPPORTED : OK; }

int nvmlDeviceGetTemperatureThreshold(Handle *handle, int kind, unsigned *celsius) { *celsius = is("hot") ? 40 : 90; return OK; }
int nvmlDeviceGetTotalEccErrors(Handle *handle, int kind, int counter, unsigned long long *count) {
  *count = is("ecc") && handle->parent == 1 ? 3 : 0;
  return is("unsupported") ? NOT_SUPPORTED : OK;
}
int nvmlDeviceGetRemappedRows(Handle *handle, unsigned *good, unsigned *bad, unsigned *pending, unsigned *failed) {
  *good = *bad = 0;
  *pending = is("pending") && handle->parent == 1;
  *failed = is("failed") && handle->parent == 1;
  return is("unsupported") ? NOT_SUPPORTED : OK;
}
typedef struct { Handle *device; unsigned long long type, data; unsigned gpu_instance, compute_instance; } Event;
static unsigned long long told;
int nvmlEventSetCreate(void **set) { *set = &told; return OK; }
int nvmlDeviceRegisterEvents(Handle *handle, unsigned long long types, void *set) { return types == 8 ? OK : NOT_SUPPORTED; }
int nvmlEventSetWait_v2(void *set, Event *event, unsigned ms) {
  const char *xid = getenv("FAKE_XID");
  if (!xid || told == strtoull(xid, 0, 10)) return TIMEOUT;
  memset(event, 0, sizeof *event);
  event->device = &cards[1]; event->type = 8; event->data = told = strtoull(xid, 0, 10);
  return OK;
}
int nvmlDeviceGetIndex(Handle *handle, unsigned *index) { *index = handle->parent; return OK; }

static int list(unsigned *count, Process *processes, unsigned long long used) {
  if (*count < 1) { *count = 1; return INSUFFICIENT_SIZE; }
  *count = 1;
  memset(processes, 0, sizeof *processes);
  processes->pid = atoi(getenv("FAKE_PID") ? getenv("FAKE_PID") : "1");
  processes->used = used;
  return OK;
}
static int from_file(const char *path, int card, unsigned *count, Process *processes) {
  FILE *file = fopen(path, "r");
  unsigned room = *count, found = 0;
  int parent, pid;
  long long mib;
  while (file && fscanf(file, "%d %d %lld", &parent, &pid, &mib) == 3) {
    if (parent != card || kill(pid, 0)) continue;
    if (found < room) {
      memset(processes + found, 0, sizeof *processes);
      processes[found].pid = pid;
      processes[found].used = mib < 0 ? ~0ULL : mib * MIB;
    }
    found++;
  }
  if (file) fclose(file);
  *count = found;
  return found > room ? INSUFFICIENT_SIZE : OK;
}
int nvmlDeviceGetComputeRunningProcesses_v3(Handle *handle, unsigned *count, Process *processes) {
  if (lost(handle)) return GPU_IS_LOST;
  if (getenv("FAKE_NVML_PROCESSES")) return from_file(getenv("FAKE_NVML_PROCESSES"), handle->parent, count, processes);
  if (handle->parent != 0 || handle->mig > 0) { *count = 0; return OK; }
  return list(count, processes, 300 * MIB);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(Handle *handle, unsigned *count, Process *processes) {
  if (lost(handle)) return GPU_IS_LOST;
  if (!is("twice") || handle->parent != 0) { *count = 0; return OK; }
  return list(count, processes, 300 * MIB);
}
int nvmlDeviceGetMigMode(Handle *handle, unsigned *current, unsigned *pending) {
  if (lost(handle)) return GPU_IS_LOST;
  if (!is("mig")) return NOT_SUPPORTED;
  *current = *pending = 1;
  return OK;
}
int nvmlDeviceGetMaxMigDeviceCount(Handle *handle, unsigned *count) { *count = 7; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(Handle *handle, unsigned index, Handle **slice) {
  if (index >= 3) return NOT_FOUND;
  *slice = &slices[index];
  return OK;
}
