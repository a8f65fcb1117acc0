/* A stand-in for libnvidia-ml.so.1 whose state a test changes while it is in use.
 *
 * Build:  gcc -O1 -shared -fPIC -fvisibility=hidden -Wl,-soname,libnvidia-ml.so.1 \
 *             -o DIR/libnvidia-ml.so.1 fake_nvml.c -lpthread
 * Use:    LD_LIBRARY_PATH=DIR FAKE_NVML_STATE=FILE (default /run/fake-nvml/state)
 *
 * The state is lines of key=value, read again when the file changes (write a new one, rename it):
 *   count=8 driver=550.54.15 cuda=12040
 *   N.name N.uuid N.bus N.total N.used (MiB) N.util N.temp N.power N.limit (mW) N.sm N.mem
 *   N.throttle N.ecc N.remapped N.mig N.procs=PID:MIB,... N.nvlink=PEER,... N.xid
 *   N.lost=1           the device is lost, the others are not
 *   hang=1, hang.FUNCTION=1, N.hang=1, N.hang.FUNCTION=1      blocks until the key is gone
 *   slow.FUNCTION=MS   takes so long;  call.FUNCTION=CODE returns that error
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define MAX_KEYS 4096
#define MAX_DEVICES 64

typedef unsigned int uint;
typedef unsigned long long ull;
typedef struct { int index; } device;

enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, SMALL = 7, TIMEOUT = 10, LOST = 15 };

static struct { char key[64]; char value[512]; } table[MAX_KEYS];
static int keys;
static struct stat seen;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static device devices[MAX_DEVICES];
static int last_xid[MAX_DEVICES];

static void reload(void) {
  const char *path = getenv("FAKE_NVML_STATE");
  struct stat now;
  char line[640];
  if (!path) path = "/run/fake-nvml/state";
  if (stat(path, &now)) return;
  if (now.st_ino == seen.st_ino && now.st_mtim.tv_nsec == seen.st_mtim.tv_nsec &&
      now.st_mtim.tv_sec == seen.st_mtim.tv_sec && now.st_size == seen.st_size) return;
  FILE *file = fopen(path, "r");
  if (!file) return;
  seen = now;
  keys = 0;
  while (keys < MAX_KEYS && fgets(line, sizeof line, file)) {
    char *value = strchr(line, '=');
    if (!value) continue;
    *value++ = 0;
    value[strcspn(value, "\n")] = 0;
    snprintf(table[keys].key, sizeof table[0].key, "%s", line);
    snprintf(table[keys++].value, sizeof table[0].value, "%s", value);
  }
  fclose(file);
}

/* Copies the value of a key; 0 when there is none. */
static int find(const char *key, char *out, size_t size) {
  int found = 0;
  pthread_mutex_lock(&lock);
  reload();
  for (int i = 0; i < keys && !found; i++)
    if (!strcmp(table[i].key, key)) {
      snprintf(out, size, "%s", table[i].value);
      found = 1;
    }
  pthread_mutex_unlock(&lock);
  return found;
}

static int is_set(const char *key) {
  char value[512];
  return find(key, value, sizeof value) && strcmp(value, "0");
}

static long number(const char *key, long fallback) {
  char value[512];
  return find(key, value, sizeof value) ? atol(value) : fallback;
}

static void of_device(device *d, const char *name, char *key, size_t size) {
  snprintf(key, size, "%d.%s", d->index, name);
}

static long device_number(device *d, const char *name, long fallback) {
  char key[64];
  of_device(d, name, key, sizeof key);
  return number(key, fallback);
}

/* Faults of a call, in the order in which a driver would show them. */
static int fault(const char *function, device *d) {
  char key[128], mine[128];
  for (;;) {
    snprintf(key, sizeof key, "hang.%s", function);
    int hangs = is_set("hang") || is_set(key);
    if (d) {
      snprintf(mine, sizeof mine, "%d.hang.%s", d->index, function);
      snprintf(key, sizeof key, "%d.hang", d->index);
      hangs = hangs || is_set(key) || is_set(mine);
    }
    if (!hangs) break;
    usleep(20000);
  }
  snprintf(key, sizeof key, "slow.%s", function);
  long ms = number(key, 0);
  if (ms) usleep(ms * 1000);
  if (d && device_number(d, "lost", 0)) return LOST;
  snprintf(key, sizeof key, "call.%s", function);
  return (int)number(key, SUCCESS);
}

#define ENTER(d) do { int f_ = fault(__func__, d); if (f_) return f_; } while (0)
#define GETTER(function, type, name, fallback) \
  API int function(device *d, type *out) { \
    ENTER(d); \
    long v_ = device_number(d, name, fallback); \
    if (v_ < 0) return NOT_SUPPORTED; \
    *out = (type)v_; \
    return SUCCESS; \
  }

static int put(char *out, uint size, const char *text) {
  if (strlen(text) + 1 > size) return SMALL;
  strcpy(out, text);
  return SUCCESS;
}

static int device_text(device *d, const char *name, const char *fallback, char *out, uint size) {
  char key[64], value[512];
  of_device(d, name, key, sizeof key);
  return put(out, size, find(key, value, sizeof value) ? value : fallback);
}

API const char *nvmlErrorString(int code) {
  switch (code) {
    case NOT_SUPPORTED: return "Not Supported";
    case LOST: return "GPU is lost";
    case 9: return "Driver Not Loaded";
    case 999: return "Unknown Error";
    default: return "Error";
  }
}

API int nvmlInitWithFlags(uint flags) { (void)flags; ENTER(0); return SUCCESS; }
API int nvmlInit_v2(void) { ENTER(0); return SUCCESS; }
API int nvmlShutdown(void) { return SUCCESS; }

API int nvmlSystemGetDriverVersion(char *out, uint size) {
  char value[512];
  ENTER(0);
  return put(out, size, find("driver", value, sizeof value) ? value : "550.54.15");
}
API int nvmlSystemGetCudaDriverVersion(int *out) { ENTER(0); *out = (int)number("cuda", 12040); return SUCCESS; }
API int nvmlSystemGetCudaDriverVersion_v2(int *out) { return nvmlSystemGetCudaDriverVersion(out); }
API int nvmlDeviceGetCount_v2(uint *out) { ENTER(0); *out = (uint)number("count", 1); return SUCCESS; }
API int nvmlDeviceGetHandleByIndex_v2(uint index, device **out) {
  ENTER(0);
  if (index >= (uint)number("count", 1) || index >= MAX_DEVICES) return INVALID;
  devices[index].index = (int)index;
  *out = &devices[index];
  return SUCCESS;
}
API int nvmlDeviceGetIndex(device *d, uint *out) { *out = (uint)d->index; return SUCCESS; }
API int nvmlDeviceGetName(device *d, char *out, uint size) {
  ENTER(d);
  return device_text(d, "name", "NVIDIA A100-SXM4-40GB", out, size);
}
API int nvmlDeviceGetUUID(device *d, char *out, uint size) {
  char fallback[64];
  ENTER(d);
  snprintf(fallback, sizeof fallback, "GPU-00000000-0000-0000-0000-%012d", d->index);
  return device_text(d, "uuid", fallback, out, size);
}

typedef struct { char legacy[16]; uint domain, bus, device, id, subsystem; char text[32]; } pci;
static void fill_pci(int index, pci *out) {
  memset(out, 0, sizeof *out);
  out->bus = (uint)(index + 1);
  snprintf(out->legacy, sizeof out->legacy, "0000:%02X:00.0", out->bus);
  snprintf(out->text, sizeof out->text, "00000000:%02X:00.0", out->bus);
}
API int nvmlDeviceGetPciInfo_v3(device *d, pci *out) { ENTER(d); fill_pci(d->index, out); return SUCCESS; }

#define MIB 1048576ULL
typedef struct { ull total, free, used; } memory_v1;
typedef struct { uint version; ull total, reserved, free, used; } memory_v2;
API int nvmlDeviceGetMemoryInfo_v2(device *d, memory_v2 *out) {
  ENTER(d);
  out->total = (ull)device_number(d, "total", 40960) * MIB;
  out->used = (ull)device_number(d, "used", 0) * MIB;
  out->reserved = 637 * MIB;
  out->free = out->total - out->used - out->reserved;
  return SUCCESS;
}
API int nvmlDeviceGetMemoryInfo(device *d, memory_v1 *out) {
  memory_v2 two;
  ENTER(d);
  nvmlDeviceGetMemoryInfo_v2(d, &two);
  out->total = two.total;
  out->used = two.used + two.reserved;
  out->free = two.free;
  return SUCCESS;
}
API int nvmlDeviceGetUtilizationRates(device *d, uint *out) {
  ENTER(d);
  out[0] = (uint)device_number(d, "util", 0);
  out[1] = out[0] / 2;
  return SUCCESS;
}
API int nvmlDeviceGetTemperature(device *d, int sensor, uint *out) {
  (void)sensor;
  ENTER(d);
  *out = (uint)device_number(d, "temp", 30);
  return SUCCESS;
}
GETTER(nvmlDeviceGetPowerUsage, uint, "power", 52000)
GETTER(nvmlDeviceGetEnforcedPowerLimit, uint, "limit", 400000)
GETTER(nvmlDeviceGetPowerManagementLimit, uint, "limit", 400000)
GETTER(nvmlDeviceGetCurrentClocksThrottleReasons, ull, "throttle", 1)
GETTER(nvmlDeviceGetCurrentClocksEventReasons, ull, "throttle", 1)
API int nvmlDeviceGetClockInfo(device *d, int kind, uint *out) {
  ENTER(d);
  *out = (uint)(kind == 2 ? device_number(d, "mem", 1215) : device_number(d, "sm", 210));
  return SUCCESS;
}
API int nvmlDeviceGetTotalEccErrors(device *d, int kind, int counter, ull *out) {
  (void)kind; (void)counter;
  ENTER(d);
  long errors = device_number(d, "ecc", 0);
  if (errors < 0) return NOT_SUPPORTED;
  *out = (ull)errors;
  return SUCCESS;
}
API int nvmlDeviceGetRemappedRows(device *d, uint *corrected, uint *uncorrected, uint *pending, uint *failed) {
  ENTER(d);
  *corrected = (uint)device_number(d, "remapped", 0);
  *uncorrected = *pending = *failed = 0;
  return SUCCESS;
}
API int nvmlDeviceGetMigMode(device *d, uint *current, uint *pending) {
  ENTER(d);
  *current = *pending = (uint)device_number(d, "mig", 0);
  return SUCCESS;
}

typedef struct { uint pid; ull used; uint gi, ci; } process;
API int nvmlDeviceGetComputeRunningProcesses_v3(device *d, uint *count, process *out) {
  char key[64], value[512], *rest, *word;
  uint room = *count, found = 0;
  ENTER(d);
  of_device(d, "procs", key, sizeof key);
  if (!find(key, value, sizeof value)) value[0] = 0;
  for (word = strtok_r(value, ",", &rest); word; word = strtok_r(NULL, ",", &rest), found++) {
    if (!out || found >= room) continue;
    char *size = strchr(word, ':');
    out[found].pid = (uint)atol(word);
    out[found].used = size ? (ull)atol(size + 1) * MIB : ~0ULL;
    out[found].gi = out[found].ci = ~0u;
  }
  *count = found;
  return found > room || (!out && found) ? SMALL : SUCCESS;
}
API int nvmlDeviceGetGraphicsRunningProcesses_v3(device *d, uint *count, process *out) {
  (void)out;
  ENTER(d);
  *count = 0;
  return SUCCESS;
}

API int nvmlDeviceGetTopologyCommonAncestor(device *one, device *other, int *out) {
  ENTER(one);
  *out = one->index / 2 == other->index / 2 ? 10 : one->index / 4 == other->index / 4 ? 30 : 50;
  return SUCCESS;
}

/* The peer at the far end of a link, or -1. */
static int link_peer(device *d, uint link) {
  char key[64], value[512], *rest, *word;
  of_device(d, "nvlink", key, sizeof key);
  if (!find(key, value, sizeof value)) return -1;
  for (word = strtok_r(value, ",", &rest); word; word = strtok_r(NULL, ",", &rest))
    if (!link--) return atoi(word);
  return -1;
}
API int nvmlDeviceGetNvLinkState(device *d, uint link, uint *out) {
  ENTER(d);
  if (link_peer(d, link) < 0) return link ? INVALID : NOT_SUPPORTED;
  *out = 1;
  return SUCCESS;
}
API int nvmlDeviceGetNvLinkRemoteDeviceType(device *d, uint link, uint *out) {
  (void)link;
  ENTER(d);
  *out = 0;
  return SUCCESS;
}
API int nvmlDeviceGetNvLinkRemotePciInfo_v2(device *d, uint link, pci *out) {
  ENTER(d);
  int peer = link_peer(d, link);
  if (peer < 0) return INVALID;
  fill_pci(peer, out);
  return SUCCESS;
}

typedef struct { device *from; ull kind, data; uint gi, ci; } event;
API int nvmlEventSetCreate(void **out) { ENTER(0); *out = devices; return SUCCESS; }
API int nvmlEventSetFree(void *set) { (void)set; return SUCCESS; }
API int nvmlDeviceRegisterEvents(device *d, ull kinds, void *set) {
  (void)kinds; (void)set;
  ENTER(d);
  last_xid[d->index] = (int)device_number(d, "xid", 0);
  return SUCCESS;
}
API int nvmlEventSetWait_v2(void *set, event *out, uint timeout_ms) {
  (void)set;
  ENTER(0);
  for (uint waited = 0; waited <= timeout_ms; waited += 20) {
    for (int i = 0; i < (int)number("count", 1) && i < MAX_DEVICES; i++) {
      devices[i].index = i;
      int xid = (int)device_number(&devices[i], "xid", 0);
      if (xid != last_xid[i]) {
        last_xid[i] = xid;
        memset(out, 0, sizeof *out);
        out->from = &devices[i];
        out->kind = 8;
        out->data = (ull)xid;
        return SUCCESS;
      }
    }
    usleep(20000);
  }
  return TIMEOUT;
}
