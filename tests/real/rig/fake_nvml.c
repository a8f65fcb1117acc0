/* A stand-in for NVIDIA's driver library, for machines without a GPU.
 *
 * The real `pynvml` loads it as libnvidia-ml.so.1. What it answers is read from a text file
 * (FAKE_NVML_STATE, else /run/fake-nvml/state) of `key=value` lines, read anew when the file is
 * replaced, so that a test can change a running "driver":
 *
 *   count=2                 devices
 *   model=NVIDIA A100-SXM4-40GB     a field of every device...
 *   1.used_mib=30000        ...or of one (device.field)
 *   0.procs=4711:9000,4712:12       pid:MiB of the processes
 *   1.lost=1                every call for device 1 says GPU_IS_LOST
 *   call.GetTemperature=3   one function answers with this return code (1.call.… for one device)
 *   hang.GetPowerUsage=1    one function blocks until the line is gone
 *   slow.GetName=300        one function takes so many ms more
 *   0.xid=79                one XID event is delivered each time the value changes; with
 *   0.xid_instance=2        it is about that GPU instance
 *   0.mig=1, 0.slices=1g.5gb,3g.20gb        MIG instances of a device; they are devices of their
 *   own, numbered 1000*(device+1)+place: 1001.used_mib=12 is the second one's of device 0
 *   nvlinks=4, nvlinks_down=1               links of a device, and how many of them are down
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define OK 0
#define INVALID_ARGUMENT 2
#define NOT_SUPPORTED 3
#define NOT_FOUND 6
#define INSUFFICIENT_SIZE 7
#define TIMEOUT 10
#define GPU_IS_LOST 15
#define MAX_DEVICES 64
#define MAX_LINES 4096
#define MIB (1024ull * 1024ull)

typedef struct { int index; } Device;
typedef Device *Handle;

#define MAX_SLICES 7
static Device devices[MAX_DEVICES];
static Device slices[MAX_DEVICES][MAX_SLICES];
static struct { char key[96]; char value[1024]; } lines[MAX_LINES];
static int line_count;
static struct timespec seen_time;
static ino_t seen_inode;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long seen_xid[MAX_DEVICES];

static void sleep_ms(long ms) {
  struct timespec wait = {ms / 1000, (ms % 1000) * 1000000L};
  nanosleep(&wait, NULL);
}

static void reload(void) {
  const char *path = getenv("FAKE_NVML_STATE");
  struct stat info;
  if (!path) path = "/run/fake-nvml/state";
  if (stat(path, &info)) return;
  if (info.st_ino == seen_inode && info.st_mtim.tv_sec == seen_time.tv_sec &&
      info.st_mtim.tv_nsec == seen_time.tv_nsec)
    return;
  FILE *file = fopen(path, "r");
  if (!file) return;
  char text[1200];
  line_count = 0;
  while (line_count < MAX_LINES && fgets(text, sizeof text, file)) {
    char *equals = strchr(text, '=');
    if (!equals || text[0] == '#') continue;
    *equals = 0;
    equals[1 + strcspn(equals + 1, "\n")] = 0;
    snprintf(lines[line_count].key, sizeof lines[0].key, "%.95s", text);
    snprintf(lines[line_count].value, sizeof lines[0].value, "%.1023s", equals + 1);
    line_count++;
  }
  fclose(file);
  seen_inode = info.st_ino;
  seen_time = info.st_mtim;
}

/* Copies the value of device.field, else of field, into out; 0 when there is none. */
static int find(int device, const char *field, char *out, size_t size) {
  char own[128];
  int found = 0;
  snprintf(own, sizeof own, "%d.%s", device, field);
  pthread_mutex_lock(&lock);
  reload();
  for (int pass = 0; pass < 2 && !found; pass++) {
    const char *key = pass ? field : own;
    if (!pass && device < 0) continue;
    for (int i = line_count - 1; i >= 0 && !found; i--)
      if (!strcmp(lines[i].key, key)) {
        snprintf(out, size, "%s", lines[i].value);
        found = 1;
      }
  }
  pthread_mutex_unlock(&lock);
  return found;
}

static double number(int device, const char *field, double otherwise) {
  char text[1024];
  return find(device, field, text, sizeof text) ? atof(text) : otherwise;
}

static int count(void) {
  int n = (int)number(-1, "count", 0);
  return n < 0 ? 0 : n > MAX_DEVICES ? MAX_DEVICES : n;
}

/* Faults of one function; what a call starts with. */
static int fault(int device, const char *function) {
  char key[96];
  snprintf(key, sizeof key, "slow.%s", function);
  long ms = (long)number(device, key, 0);
  if (ms > 0) sleep_ms(ms);
  snprintf(key, sizeof key, "hang.%s", function);
  while (number(device, key, 0) || number(device, "hang", 0)) sleep_ms(20);
  if (device >= 0 && number(device, "lost", 0)) return GPU_IS_LOST;
  if (device >= 1000 && number(device / 1000 - 1, "lost", 0)) return GPU_IS_LOST;
  snprintf(key, sizeof key, "call.%s", function);
  return (int)number(device, key, 0);
}

#define FIRST_SLICE 1000
static int is_slice(int device) { return device >= FIRST_SLICE; }
static int parent_of(int device) { return is_slice(device) ? device / FIRST_SLICE - 1 : device; }
static int place_of(int device) { return device % FIRST_SLICE; }

static int device_of(Handle handle) {
  uintptr_t at = (uintptr_t)handle;
  if (at >= (uintptr_t)slices && at < (uintptr_t)(slices + MAX_DEVICES)) {
    int place = (int)(handle - &slices[0][0]);
    return FIRST_SLICE * (place / MAX_SLICES + 1) + place % MAX_SLICES;
  }
  int index = handle ? (int)(handle - devices) : -1;
  return index >= 0 && index < MAX_DEVICES ? index : -1;
}

/* The few functions that take a handle of a MIG instance. */
static int of_slices(const char *function) {
  static const char *known[] = {"GetName", "GetUUID", "GetMemoryInfo", "GetMemoryInfo_v2", "GetAttributes",
                                "GetComputeRunningProcesses", "GetGraphicsRunningProcesses",
                                "GetGpuInstanceId", "GetComputeInstanceId", NULL};
  for (int i = 0; known[i]; i++)
    if (!strcmp(known[i], function)) return 1;
  return 0;
}

#define DEVICE(function)                          \
  int device = device_of(handle);                 \
  if (device < 0) return INVALID_ARGUMENT;        \
  int faulted = fault(device, function);          \
  if (!faulted && is_slice(device) && !of_slices(function)) return NOT_SUPPORTED; \
  if (faulted) return faulted;

/* A field that only some devices have. */
static int optional(int device, const char *field, unsigned int *out) {
  char text[1024];
  if (!find(device, field, text, sizeof text)) return NOT_SUPPORTED;
  *out = (unsigned int)strtoul(text, NULL, 0);
  return OK;
}

static int text_of(int device, const char *field, const char *otherwise, char *out, unsigned size) {
  char text[1024];
  if (!find(device, field, text, sizeof text)) {
    if (!otherwise) return NOT_SUPPORTED;
    snprintf(text, sizeof text, "%s", otherwise);
  }
  if (strlen(text) >= size) return INSUFFICIENT_SIZE;
  strcpy(out, text);
  return OK;
}

/* ---- library and system ---- */
API int nvmlInitWithFlags(unsigned int flags) { (void)flags; return fault(-1, "Init"); }
API int nvmlInit_v2(void) { return fault(-1, "Init"); }
API int nvmlShutdown(void) { return OK; }
API const char *nvmlErrorString(int code) {
  switch (code) {
    case NOT_SUPPORTED: return "Not Supported";
    case 9: return "Driver Not Loaded";
    case GPU_IS_LOST: return "GPU is lost";
    case TIMEOUT: return "Timeout";
    default: return "Error of the stand-in driver";
  }
}
API int nvmlSystemGetDriverVersion(char *out, unsigned size) {
  int failed = fault(-1, "GetDriverVersion");
  return failed ? failed : text_of(-1, "driver", "570.86.15", out, size);
}
API int nvmlSystemGetNVMLVersion(char *out, unsigned size) {
  return text_of(-1, "nvml", "12.570.86.15", out, size);
}
API int nvmlSystemGetCudaDriverVersion(int *out) { *out = (int)number(-1, "cuda", 12080); return OK; }
API int nvmlSystemGetCudaDriverVersion_v2(int *out) { return nvmlSystemGetCudaDriverVersion(out); }
API int nvmlSystemGetProcessName(unsigned pid, char *out, unsigned size) {
  (void)pid;
  return text_of(-1, "process_name", "python", out, size);
}
API int nvmlDeviceGetCount_v2(unsigned *out) {
  int failed = fault(-1, "GetCount");
  *out = (unsigned)count();
  return failed;
}

/* ---- handles and identity ---- */
/* Writes the profile of the nth slice that `slices` names; 0 when there are fewer. */
static int profile_of(int device, int place, char *out, size_t size) {
  char text[1024];
  int n = 0;
  if (!number(device, "mig", 0) || !find(device, "slices", text, sizeof text)) return 0;
  for (char *rest = NULL, *part = strtok_r(text, ",", &rest); part; part = strtok_r(NULL, ",", &rest))
    if (n++ == place) {
      snprintf(out, size, "%s", part);
      return 1;
    }
  return 0;
}
static void own_uuid(int device, char *out, size_t size) {
  char otherwise[80];
  if (is_slice(device)) {
    char parent[80];
    own_uuid(parent_of(device), parent, sizeof parent);
    snprintf(out, size, "MIG-%s", parent + 4);
    if (strlen(out) > 8) snprintf(out + strlen(out) - 3, 4, "f0%c", '0' + place_of(device) % MAX_SLICES);
    return;
  }
  snprintf(otherwise, sizeof otherwise, "GPU-00000000-0000-4000-8000-%012d", device);
  if (text_of(device, "uuid", otherwise, out, (unsigned)size)) snprintf(out, size, "%s", otherwise);
}
API int nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle *out) {
  if ((int)index >= count()) return INVALID_ARGUMENT;
  int failed = fault((int)index, "GetHandleByIndex");
  *out = &devices[index];
  return failed;
}
API int nvmlDeviceGetHandleByUUID(const char *uuid, Handle *out) {
  for (int i = 0; i < count(); i++) {
    char own[96];
    own_uuid(i, own, sizeof own);
    if (!strcmp(own, uuid)) { *out = &devices[i]; return OK; }
  }
  return NOT_FOUND;
}
API int nvmlDeviceGetName(Handle handle, char *out, unsigned size) {
  DEVICE("GetName")
  if (is_slice(device)) {
    char model[80], profile[32];
    if (!profile_of(parent_of(device), place_of(device), profile, sizeof profile)) return NOT_FOUND;
    if (text_of(parent_of(device), "model", "NVIDIA A100-SXM4-40GB", model, sizeof model)) return INVALID_ARGUMENT;
    return snprintf(out, size, "%s MIG %s", model, profile) >= (int)size ? INSUFFICIENT_SIZE : OK;
  }
  return text_of(device, "model", "NVIDIA A100-SXM4-40GB", out, size);
}
API int nvmlDeviceGetUUID(Handle handle, char *out, unsigned size) {
  DEVICE("GetUUID")
  char own[96];
  own_uuid(device, own, sizeof own);
  if (strlen(own) >= size) return INSUFFICIENT_SIZE;
  strcpy(out, own);
  return OK;
}
API int nvmlDeviceGetIndex(Handle handle, unsigned *out) { DEVICE("GetIndex") *out = (unsigned)device; return OK; }
API int nvmlDeviceGetMinorNumber(Handle handle, unsigned *out) { return nvmlDeviceGetIndex(handle, out); }
API int nvmlDeviceGetSerial(Handle handle, char *out, unsigned size) {
  DEVICE("GetSerial")
  return text_of(device, "serial", NULL, out, size);
}
API int nvmlDeviceGetBrand(Handle handle, unsigned *out) { DEVICE("GetBrand") *out = 2; return OK; }
API int nvmlDeviceGetDriverModel(Handle handle, unsigned *now, unsigned *next) {
  (void)handle; (void)now; (void)next;
  return NOT_SUPPORTED;
}
API int nvmlDeviceGetPersistenceMode(Handle handle, unsigned *out) { DEVICE("GetPersistenceMode") *out = 1; return OK; }
API int nvmlDeviceGetComputeMode(Handle handle, unsigned *out) { DEVICE("GetComputeMode") *out = 0; return OK; }
API int nvmlDeviceGetCudaComputeCapability(Handle handle, int *major, int *minor) {
  DEVICE("GetCudaComputeCapability")
  double value = number(device, "capability", 8.0);
  *major = (int)value;
  *minor = (int)(value * 10 + 0.5) % 10;
  return OK;
}

typedef struct {
  char busIdLegacy[16];
  unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
  char busId[32];
} PciInfo;
static void pci_of(int device, PciInfo *out) {
  memset(out, 0, sizeof *out);
  out->bus = 0x10u + (unsigned)device;
  out->pciDeviceId = 0x20b010deu;
  snprintf(out->busId, sizeof out->busId, "00000000:%02X:00.0", out->bus);
  snprintf(out->busIdLegacy, sizeof out->busIdLegacy, "0000:%02X:00.0", out->bus);
}
API int nvmlDeviceGetPciInfo_v3(Handle handle, PciInfo *out) { DEVICE("GetPciInfo") pci_of(device, out); return OK; }
API int nvmlDeviceGetPciInfo_v2(Handle handle, PciInfo *out) { return nvmlDeviceGetPciInfo_v3(handle, out); }
API int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, Handle *out) {
  for (int i = 0; i < count(); i++) {
    PciInfo info;
    pci_of(i, &info);
    if (strstr(info.busId, bus) || strstr(bus, info.busIdLegacy)) { *out = &devices[i]; return OK; }
  }
  return NOT_FOUND;
}

/* ---- samples ---- */
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } MemoryV2;
/* A slice has the memory that its profile names: 3g.20gb. */
static double slice_mib(int device) {
  char profile[32] = "";
  profile_of(parent_of(device), place_of(device), profile, sizeof profile);
  char *dot = strchr(profile, '.');
  return dot ? atof(dot + 1) * 1024 : 0;
}
static unsigned long long total_of(int device) {
  if (is_slice(device)) return (unsigned long long)(slice_mib(device) * MIB);
  return (unsigned long long)(number(device, "total_mib", 40960) * MIB);
}
static unsigned long long used_of(int device) { return (unsigned long long)(number(device, "used_mib", 0) * MIB); }
static unsigned long long reserved_of(int device) {
  if (is_slice(device)) return 0;
  return (unsigned long long)(number(device, "reserved_mib", 637) * MIB);
}
API int nvmlDeviceGetMemoryInfo(Handle handle, Memory *out) {
  DEVICE("GetMemoryInfo")
  out->total = total_of(device);
  out->used = used_of(device) + reserved_of(device);
  out->free = out->total > out->used ? out->total - out->used : 0;
  return OK;
}
API int nvmlDeviceGetMemoryInfo_v2(Handle handle, MemoryV2 *out) {
  DEVICE("GetMemoryInfo_v2")
  out->total = total_of(device);
  out->used = used_of(device);
  out->reserved = reserved_of(device);
  out->free = out->total > out->used + out->reserved ? out->total - out->used - out->reserved : 0;
  return OK;
}
typedef struct { unsigned gpu, memory; } Utilization;
API int nvmlDeviceGetUtilizationRates(Handle handle, Utilization *out) {
  DEVICE("GetUtilizationRates")
  out->gpu = (unsigned)number(device, "util", 0);
  out->memory = (unsigned)number(device, "mem_util", 0);
  return OK;
}
API int nvmlDeviceGetTemperature(Handle handle, unsigned sensor, unsigned *out) {
  DEVICE("GetTemperature")
  (void)sensor;
  *out = (unsigned)number(device, "temp", 34);
  return OK;
}
typedef struct { unsigned version, sensor; int temperature; } TemperatureV1;
API int nvmlDeviceGetTemperatureV(Handle handle, TemperatureV1 *out) {
  DEVICE("GetTemperature")
  out->temperature = (int)number(device, "temp", 34);
  return OK;
}
API int nvmlDeviceGetPowerUsage(Handle handle, unsigned *out) {
  DEVICE("GetPowerUsage")
  *out = (unsigned)(number(device, "power", 55) * 1000);
  return OK;
}
API int nvmlDeviceGetEnforcedPowerLimit(Handle handle, unsigned *out) {
  DEVICE("GetEnforcedPowerLimit")
  *out = (unsigned)(number(device, "power_limit", 400) * 1000);
  return OK;
}
API int nvmlDeviceGetPowerManagementLimit(Handle handle, unsigned *out) { return nvmlDeviceGetEnforcedPowerLimit(handle, out); }
API int nvmlDeviceGetTotalEnergyConsumption(Handle handle, unsigned long long *out) {
  DEVICE("GetTotalEnergyConsumption")
  *out = (unsigned long long)number(device, "energy_mj", 0);
  return OK;
}
API int nvmlDeviceGetFanSpeed(Handle handle, unsigned *out) { DEVICE("GetFanSpeed") return optional(device, "fan", out); }
API int nvmlDeviceGetPerformanceState(Handle handle, unsigned *out) { DEVICE("GetPerformanceState") *out = 0; return OK; }
API int nvmlDeviceGetClockInfo(Handle handle, unsigned kind, unsigned *out) {
  DEVICE("GetClockInfo")
  *out = (unsigned)(kind == 2 ? number(device, "mem_clock", 1215) : number(device, "sm_clock", 1410));
  return OK;
}
API int nvmlDeviceGetMaxClockInfo(Handle handle, unsigned kind, unsigned *out) {
  DEVICE("GetMaxClockInfo")
  *out = kind == 2 ? 1215 : 1410;
  return OK;
}
API int nvmlDeviceGetCurrentClocksEventReasons(Handle handle, unsigned long long *out) {
  DEVICE("GetCurrentClocksEventReasons")
  *out = (unsigned long long)number(device, "throttle", 0);
  return OK;
}
API int nvmlDeviceGetCurrentClocksThrottleReasons(Handle handle, unsigned long long *out) {
  return nvmlDeviceGetCurrentClocksEventReasons(handle, out);
}

/* ---- health ---- */
API int nvmlDeviceGetEccMode(Handle handle, unsigned *now, unsigned *next) { DEVICE("GetEccMode") *now = *next = 1; return OK; }
API int nvmlDeviceGetTotalEccErrors(Handle handle, unsigned kind, unsigned counter, unsigned long long *out) {
  DEVICE("GetTotalEccErrors")
  (void)counter;
  *out = (unsigned long long)number(device, kind == 1 ? "ecc_uncorrected" : "ecc_corrected", 0);
  return OK;
}
API int nvmlDeviceGetRetiredPages(Handle handle, unsigned cause, unsigned *n, unsigned long long *out) {
  DEVICE("GetRetiredPages")
  unsigned have = 0;
  int failed = optional(device, cause == 1 ? "retired_double" : "retired_single", &have);
  if (failed) return failed;
  int fits = out && *n >= have;
  *n = have;
  if (!fits && have) return INSUFFICIENT_SIZE;
  for (unsigned i = 0; i < have; i++) out[i] = 0x1000ull * i;
  return OK;
}
API int nvmlDeviceGetRetiredPagesPendingStatus(Handle handle, unsigned *out) {
  DEVICE("GetRetiredPagesPendingStatus")
  *out = (unsigned)number(device, "retired_pending", 0);
  return OK;
}
API int nvmlDeviceGetRemappedRows(Handle handle, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failure) {
  DEVICE("GetRemappedRows")
  *corrected = (unsigned)number(device, "remap_corrected", 0);
  *uncorrected = (unsigned)number(device, "remap_uncorrected", 0);
  *pending = (unsigned)number(device, "remap_pending", 0);
  *failure = (unsigned)number(device, "remap_failure", 0);
  return OK;
}

/* ---- MIG, topology ---- */
API int nvmlDeviceGetMigMode(Handle handle, unsigned *now, unsigned *next) {
  DEVICE("GetMigMode")
  int failed = optional(device, "mig", now);
  *next = *now;
  return failed;
}
API int nvmlDeviceGetMaxMigDeviceCount(Handle handle, unsigned *out) {
  DEVICE("GetMaxMigDeviceCount")
  *out = number(device, "mig", 0) ? MAX_SLICES : 0;
  return OK;
}
API int nvmlDeviceGetMigDeviceHandleByIndex(Handle handle, unsigned index, Handle *out) {
  DEVICE("GetMigDeviceHandleByIndex")
  char profile[32];
  if (index >= MAX_SLICES) return INVALID_ARGUMENT;
  if (!profile_of(device, (int)index, profile, sizeof profile)) return NOT_FOUND;
  *out = &slices[device][index];
  return OK;
}
typedef struct {
  unsigned multiprocessors, copy, decoder, encoder, jpeg, ofa, gpu_slices, compute_slices;
  unsigned long long memory_mb;
} Attributes;
API int nvmlDeviceGetAttributes_v2(Handle handle, Attributes *out) {
  DEVICE("GetAttributes")
  char profile[32] = "";
  if (!is_slice(device)) return NOT_SUPPORTED;
  memset(out, 0, sizeof *out);
  profile_of(parent_of(device), place_of(device), profile, sizeof profile);
  out->gpu_slices = out->compute_slices = (unsigned)atoi(profile);
  out->memory_mb = (unsigned long long)slice_mib(device);
  return OK;
}
API int nvmlDeviceIsMigDeviceHandle(Handle handle, unsigned *out) { *out = (unsigned)is_slice(device_of(handle)); return OK; }
API int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Handle handle, Handle *out) {
  int device = device_of(handle);
  if (!is_slice(device)) return INVALID_ARGUMENT;
  *out = &devices[parent_of(device)];
  return OK;
}
API int nvmlDeviceGetGpuInstanceId(Handle handle, unsigned *out) {
  DEVICE("GetGpuInstanceId")
  if (!is_slice(device)) return NOT_SUPPORTED;
  *out = (unsigned)place_of(device) + 1;
  return OK;
}
API int nvmlDeviceGetComputeInstanceId(Handle handle, unsigned *out) {
  DEVICE("GetComputeInstanceId")
  if (!is_slice(device)) return NOT_SUPPORTED;
  *out = 0;
  return OK;
}
API int nvmlDeviceGetNumaNodeId(Handle handle, unsigned *out) { DEVICE("GetNumaNodeId") return optional(device, "numa", out); }
API int nvmlDeviceGetTopologyCommonAncestor(Handle handle, Handle other, unsigned *out) {
  DEVICE("GetTopologyCommonAncestor")
  char key[32];
  snprintf(key, sizeof key, "path.%d", device_of(other));
  *out = (unsigned)number(device, key, number(device, "path", 40));
  return OK;
}
/* nvlinks=N: N links from this device, spread in order over nvlink_peers=1,2,3. */
static int nvlink_peer(int device, unsigned link) {
  char text[1024];
  int peers[MAX_DEVICES], n = 0;
  if (link >= (unsigned)number(device, "nvlinks", 0)) return -1;
  if (!find(device, "nvlink_peers", text, sizeof text)) return -1;
  for (char *rest = NULL, *part = strtok_r(text, ",", &rest); part && n < MAX_DEVICES; part = strtok_r(NULL, ",", &rest))
    peers[n++] = atoi(part);
  return n ? peers[link % (unsigned)n] : -1;
}
API int nvmlDeviceGetNvLinkState(Handle handle, unsigned link, unsigned *out) {
  DEVICE("GetNvLinkState")
  if (nvlink_peer(device, link) < 0) return NOT_SUPPORTED;
  *out = link >= (unsigned)number(device, "nvlinks_down", 0);
  return OK;
}
API int nvmlDeviceGetNvLinkErrorCounter(Handle handle, unsigned link, unsigned counter, unsigned long long *out) {
  DEVICE("GetNvLinkErrorCounter")
  if (nvlink_peer(device, link) < 0) return NOT_SUPPORTED;
  char key[32];
  snprintf(key, sizeof key, "nvlink_errors.%u", counter);
  *out = (unsigned long long)number(device, key, 0);
  return OK;
}
API int nvmlDeviceGetNvLinkRemotePciInfo_v2(Handle handle, unsigned link, PciInfo *out) {
  DEVICE("GetNvLinkRemotePciInfo")
  int peer = nvlink_peer(device, link);
  if (peer < 0) return NOT_SUPPORTED;
  pci_of(peer, out);
  return OK;
}
API int nvmlDeviceGetNvLinkRemotePciInfo(Handle handle, unsigned link, PciInfo *out) { return nvmlDeviceGetNvLinkRemotePciInfo_v2(handle, link, out); }
API int nvmlDeviceGetNvLinkRemoteDeviceType(Handle handle, unsigned link, unsigned *out) {
  DEVICE("GetNvLinkRemoteDeviceType")
  if (nvlink_peer(device, link) < 0) return NOT_SUPPORTED;
  *out = 0;
  return OK;
}

/* ---- processes ---- */
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } Process;
API int nvmlDeviceGetComputeRunningProcesses_v3(Handle handle, unsigned *n, Process *out) {
  DEVICE("GetComputeRunningProcesses")
  char text[1024];
  unsigned have = 0, room = *n;
  if (find(device, "procs", text, sizeof text) && *text)
    for (char *rest = NULL, *part = strtok_r(text, ",", &rest); part; part = strtok_r(NULL, ",", &rest)) {
      char *colon = strchr(part, ':');
      if (out && have < room) {
        out[have].pid = (unsigned)strtoul(part, NULL, 10);
        /* -1 MiB: the driver cannot tell (NVML_VALUE_NOT_AVAILABLE). */
        out[have].used = colon && colon[1] != '-' ? strtoull(colon + 1, NULL, 10) * MIB : ~0ull;
        out[have].gpu_instance = out[have].compute_instance = ~0u;
      }
      have++;
    }
  *n = have;
  return have > room ? INSUFFICIENT_SIZE : OK;
}
API int nvmlDeviceGetComputeRunningProcesses_v2(Handle handle, unsigned *n, Process *out) { return nvmlDeviceGetComputeRunningProcesses_v3(handle, n, out); }
API int nvmlDeviceGetGraphicsRunningProcesses_v3(Handle handle, unsigned *n, Process *out) {
  DEVICE("GetGraphicsRunningProcesses")
  (void)out;
  *n = 0;
  return OK;
}
API int nvmlDeviceGetGraphicsRunningProcesses_v2(Handle handle, unsigned *n, Process *out) { return nvmlDeviceGetGraphicsRunningProcesses_v3(handle, n, out); }

/* ---- events ---- */
typedef struct { Handle device; unsigned long long type, data; unsigned gpu_instance, compute_instance; } Event;
static int event_set;
API int nvmlDeviceGetSupportedEventTypes(Handle handle, unsigned long long *out) { DEVICE("GetSupportedEventTypes") *out = 0x8; return OK; }
API int nvmlEventSetCreate(void **out) { *out = &event_set; return fault(-1, "EventSetCreate"); }
API int nvmlEventSetFree(void *set) { (void)set; return OK; }
API int nvmlDeviceRegisterEvents(Handle handle, unsigned long long types, void *set) { DEVICE("RegisterEvents") (void)types; (void)set; return OK; }
API int nvmlEventSetWait_v2(void *set, Event *out, unsigned timeout_ms) {
  (void)set;
  for (unsigned waited = 0;; waited += 10) {
    for (int i = 0; i < count(); i++) {
      long xid = (long)number(i, "xid", 0);
      if (xid != seen_xid[i]) {
        seen_xid[i] = xid;
        if (!xid) continue;
        out->device = &devices[i];
        out->type = 0x8;
        out->data = (unsigned long long)xid;
        out->gpu_instance = (unsigned)(int)number(i, "xid_instance", -1);
        out->compute_instance = ~0u;
        return OK;
      }
    }
    if (waited >= timeout_ms) return TIMEOUT;
    sleep_ms(10);
  }
}
API int nvmlEventSetWait(void *set, Event *out, unsigned timeout_ms) { return nvmlEventSetWait_v2(set, out, timeout_ms); }
