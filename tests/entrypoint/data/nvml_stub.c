// A stand-in libnvidia-ml.so.1 with two cards: one that answers everything, and one that is old, virtual or sick and
// answers only what every card does. Built by test_host_nvml.py, so that the real pynvml is driven without a driver.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, LOST = 15, UNKNOWN = 999 };
typedef struct { char legacy[16]; unsigned domain, bus, device, id, sub; char bus_id[32]; } Pci;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory2;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } Process;

static int well(void *card) { return card == (void *)1; }
// The card (an index) that is lost when its handle, or only when its name is asked for; the one whose driver hangs.
static int is(const char *what, unsigned long index) { const char *at = getenv(what); return at && strtoul(at, 0, 10) == index; }
static int card_state(void *card) {
  if (is("NVML_HANG", (unsigned long)card - 1)) for (;;) pause();
  return is("NVML_LOST_LATE", (unsigned long)card - 1) ? LOST : OK;
}
static int sick(void) { const char *mode = getenv("NVML_STUB"); return mode && !strcmp(mode, "unknown"); }

int nvmlInitWithFlags(unsigned flags) { return sick() ? UNKNOWN : OK; }
const char *nvmlErrorString(int code) { return code == UNKNOWN ? "Unknown Error" : code == NOT_SUPPORTED ? "Not Supported" : code == LOST ? "GPU is lost" : code == NOT_FOUND ? "Not Found" : "error"; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **card) { *card = (void *)(unsigned long)(index + 1); return is("NVML_LOST", index) ? LOST : OK; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **card) {
  unsigned long number = strncmp(uuid, "GPU-", 4) ? 0 : strtoul(uuid + 4, 0, 10);
  if (number < 1 || number > 2) return NOT_FOUND;
  *card = (void *)number;
  return is("NVML_LOST", number - 1) ? LOST : card_state(*card);
}
int nvmlSystemGetDriverVersion(char *text, unsigned size) { snprintf(text, size, "580.95.05"); return OK; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 13000; return OK; }
int nvmlDeviceGetUUID(void *card, char *text, unsigned size) { snprintf(text, size, "GPU-%d", (int)(long)card); return OK; }
int nvmlDeviceGetName(void *card, char *text, unsigned size) { snprintf(text, size, "Card %d", (int)(long)card); return card_state(card); }
int nvmlDeviceGetPciInfo_v3(void *card, Pci *pci) {
  memset(pci, 0, sizeof *pci);
  // The second card has the lower address: NVML's order is not taken for granted.
  snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%s:00.0", well(card) ? "C1" : "01");
  return OK;
}
int nvmlDeviceGetCudaComputeCapability(void *card, int *major, int *minor) { *major = 12; *minor = 0; return OK; }
int nvmlDeviceGetMemoryInfo_v2(void *card, Memory2 *m) {
  if (!well(card)) return NOT_SUPPORTED;
  m->total = 97887ull << 20; m->reserved = 636ull << 20; m->used = 5ull << 20; m->free = m->total - m->reserved - m->used;
  return OK;
}
int nvmlDeviceGetMemoryInfo(void *card, unsigned long long *m) { m[0] = 32ull << 30; m[1] = 30ull << 30; m[2] = 2ull << 30; return OK; }
int nvmlDeviceGetEccMode(void *card, unsigned *now, unsigned *next) { *now = *next = 1; return well(card) ? OK : NOT_SUPPORTED; }
int nvmlDeviceGetMigMode(void *card, unsigned *now, unsigned *next) { *now = 1; *next = 0; return well(card) ? OK : NOT_SUPPORTED; }
int nvmlDeviceGetPersistenceMode(void *card, unsigned *mode) { *mode = 1; return well(card) ? OK : NOT_SUPPORTED; }
int nvmlDeviceGetDisplayActive(void *card, unsigned *mode) { *mode = 0; return well(card) ? OK : NOT_SUPPORTED; }
int nvmlDeviceGetCurrPcieLinkGeneration(void *card, unsigned *n) { *n = 1; return well(card) ? OK : NOT_SUPPORTED; }
int nvmlDeviceGetCurrPcieLinkWidth(void *card, unsigned *n) { *n = 8; return well(card) ? OK : NOT_SUPPORTED; }
int nvmlDeviceGetMaxPcieLinkGeneration(void *card, unsigned *n) { *n = 4; return well(card) ? OK : NOT_SUPPORTED; }
int nvmlDeviceGetGpuMaxPcieLinkGeneration(void *card, unsigned *n) { *n = 5; return well(card) ? OK : NOT_SUPPORTED; }
int nvmlDeviceGetMaxPcieLinkWidth(void *card, unsigned *n) { *n = 16; return well(card) ? OK : NOT_SUPPORTED; }
int nvmlDeviceGetNvLinkState(void *card, unsigned link, unsigned *on) { *on = link != 1; return well(card) && link < 4 ? OK : NOT_SUPPORTED; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *card, unsigned *count, Process *found) {
  if (!well(card)) return NOT_SUPPORTED;
  if (!found || *count < 2) { *count = 2; return INSUFFICIENT_SIZE; }
  found[0] = (Process){4242, 1ull << 30, 0, 0};
  found[1] = (Process){77, ~0ull, 0, 0};  // "not available", as in a container
  *count = 2;
  return OK;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *card, unsigned *count, Process *found) { *count = 0; return OK; }
int nvmlDeviceGetP2PStatus(void *a, void *b, unsigned capability, unsigned *status) { *status = capability ? 1 : 0; return OK; }

// How a card is, and what it reported: NVML_XID="CARD:NUMBER ..." is told once, one event a call.
typedef struct { void *device; unsigned long long type, data; unsigned gi, ci; } Event;
static void *watched[2];
static const char *left;
int nvmlDeviceGetPowerUsage(void *card, unsigned *mw) { *mw = 312500; return well(card) ? OK : NOT_SUPPORTED; }
int nvmlDeviceGetEnforcedPowerLimit(void *card, unsigned *mw) { *mw = 600000; return well(card) ? OK : NOT_SUPPORTED; }
int nvmlDeviceGetTemperature(void *card, int sensor, unsigned *c) { *c = 61; return sensor ? NOT_SUPPORTED : OK; }
int nvmlDeviceGetUtilizationRates(void *card, unsigned *rates) { rates[0] = 87; rates[1] = 40; return well(card) ? OK : NOT_SUPPORTED; }
int nvmlDeviceGetPcieThroughput(void *card, int counter, unsigned *kb) { *kb = counter ? 2000000 : 1500; return well(card) ? OK : NOT_SUPPORTED; }
int nvmlDeviceGetTotalEccErrors(void *card, int error, int counter, unsigned long long *n) { *n = error == 1 && counter == 0 ? 3 : 99; return well(card) ? OK : NOT_SUPPORTED; }
int nvmlDeviceGetRemappedRows(void *card, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) { *corrected = *uncorrected = 1; *pending = 1; *failed = 0; return well(card) ? OK : NOT_SUPPORTED; }
int nvmlEventSetCreate(void **set) { *set = watched; left = getenv("NVML_XID"); return getenv("NVML_NO_EVENTS") ? NOT_SUPPORTED : OK; }
int nvmlDeviceGetSupportedEventTypes(void *card, unsigned long long *types) { *types = well(card) ? 15 : 0; return OK; }
int nvmlDeviceRegisterEvents(void *card, unsigned long long types, void *set) { watched[(long)card - 1] = card; return types == 8 ? OK : NOT_SUPPORTED; }
int nvmlEventSetWait_v2(void *set, Event *event, unsigned ms) {
  char *after;
  if (!left || !*left) return 10;  // timeout
  unsigned long card = strtoul(left, &after, 10);
  event->data = strtoull(after + 1, &after, 10); event->device = (void *)card; event->type = 8;
  left = *after ? after + 1 : after;
  return watched[card - 1] ? OK : 10;
}
