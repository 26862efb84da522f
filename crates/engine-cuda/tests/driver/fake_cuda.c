// A CUDA driver without a GPU, for the tests of src/gpu/driver: what it is asked, it does with the
// host's memory.
//
// FAKE_CUDA in the environment says what is wrong with it, as NAME=NUMBER,...: `init`, `retain` and
// `load` are the errors that these calls give; `version`, `devices`, `capability` (10 times the
// major and the minor) and `busy` (an error for every new stream) are what they say. A kernel does
// one thing: it writes how many threads it had to the address that its arguments begin with; the
// address 0 is the failure of the device, which every later call reports, and every callback.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_CONTEXT = 201,
    INVALID_IMAGE = 200,
    NOT_FOUND = 500,
    ILLEGAL_ADDRESS = 700,
};

static const size_t MEMORY = (size_t)1 << 30;

// A device that has failed says so for good.
static int failed;
// What has been given and not taken back.
static int live;
static __thread void *current;
static char context;

static int option(const char *name, int otherwise) {
    const char *options = getenv("FAKE_CUDA");
    const size_t length = strlen(name);
    while (options && *options) {
        if (!strncmp(options, name, length) && options[length] == '=')
            return atoi(options + length + 1);
        options = strchr(options, ',');
        if (options) options++;
    }
    return otherwise;
}

static int state(void) {
    if (current != &context) return INVALID_CONTEXT;
    return __atomic_load_n(&failed, __ATOMIC_SEQ_CST);
}

#define NEED_CONTEXT() do { int error_ = state(); if (error_) return error_; } while (0)

static void count(int change) { __atomic_add_fetch(&live, change, __ATOMIC_SEQ_CST); }

EXPORT int cuInit(unsigned flags) { return flags ? INVALID_VALUE : option("init", SUCCESS); }

EXPORT int cuDriverGetVersion(int *version) {
    *version = option("version", 13000);
    return SUCCESS;
}

EXPORT int cuGetErrorName(int code, const char **name) {
    switch (code) {
    case 700: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; return SUCCESS;
    case 803: *name = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"; return SUCCESS;
    default: *name = NULL; return INVALID_VALUE;
    }
}

EXPORT int cuGetErrorString(int code, const char **text) {
    *text = "as the fake says";
    return code == 700 || code == 803 ? SUCCESS : INVALID_VALUE;
}

EXPORT int cuDeviceGetCount(int *devices) {
    *devices = option("devices", 1);
    return SUCCESS;
}

EXPORT int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal + 40;
    return ordinal < option("devices", 1) ? SUCCESS : 101;
}

EXPORT int cuDeviceGetName(char *name, int bytes, int device) {
    snprintf(name, bytes, "Fake %d", device - 40);
    return SUCCESS;
}

EXPORT int cuDeviceGetPCIBusId(char *id, int bytes, int device) {
    snprintf(id, bytes, "0000:%02x:00.0", device - 40);
    return SUCCESS;
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    *bytes = MEMORY;
    return device >= 40 ? SUCCESS : 101;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device) {
    switch (attribute) {
    case 13: *value = 1980000; break;
    case 16: *value = 132; break;
    case 38: *value = 50 << 20; break;
    case 75: *value = option("capability", 90) / 10; break;
    case 76: *value = option("capability", 90) % 10; break;
    case 97: *value = 232448; break;
    default: return INVALID_VALUE;
    }
    return device >= 40 ? SUCCESS : 101;
}

EXPORT int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) {
    (void)device;
    return flags == 4 ? SUCCESS : INVALID_VALUE;
}

EXPORT int cuDevicePrimaryCtxRetain(void **handle, int device) {
    (void)device;
    const int error = option("retain", SUCCESS);
    if (error) return error;
    count(1);
    *handle = &context;
    return SUCCESS;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
    (void)device;
    count(-1);
    fprintf(stderr, "fake_cuda: %d left\n", live);
    return SUCCESS;
}

EXPORT int cuCtxSetCurrent(void *handle) {
    current = handle;
    return SUCCESS;
}

struct module { int is_loaded; };
struct function { int dynamic_shared; };

EXPORT int cuModuleLoadDataEx(struct module** module, const void* image, unsigned options,
                              int* names, void** values) {
    NEED_CONTEXT();
    // A fatbin, as in the binary; what fake_nvrtc.c makes; what NVRTC itself makes.
    const int is_fatbin = !memcmp(image, "\x50\xed\x55\xba", 4);
    const int error = option("load", SUCCESS);
    if (error && is_fatbin) {
        if (options == 2 && names[0] == 5 && names[1] == 6 && (size_t)values[1] > 16)
            strcpy(values[0], "not for me\n");
        return error;
    }
    if (!is_fatbin && memcmp(image, "compiled", 8) && memcmp(image, "\177ELF", 4))
        return INVALID_IMAGE;
    *module = calloc(1, sizeof **module);
    (*module)->is_loaded = 1;
    count(1);
    return SUCCESS;
}

EXPORT int cuModuleUnload(struct module *module) {
    if (current != &context || !module->is_loaded) return INVALID_CONTEXT;
    free(module);
    count(-1);
    return SUCCESS;
}

EXPORT int cuModuleGetFunction(struct function** function, struct module* module,
                               const char* name) {
    NEED_CONTEXT();
    if (!module->is_loaded || !*name) return NOT_FOUND;
    // As long as the process: functions are their module's.
    static struct function functions[64];
    static int next;
    *function = &functions[next++ % 64];
    return SUCCESS;
}

EXPORT int cuFuncGetAttribute(int *value, int attribute, struct function *function) {
    *value = 1024;
    return function && attribute == 1 ? SUCCESS : INVALID_VALUE;
}

EXPORT int cuFuncSetAttribute(struct function *function, int attribute, int value) {
    if (attribute == 9) return value < 0 || value > 100 ? INVALID_VALUE : SUCCESS;
    if (attribute != 8 || value > 232448 - 1024) return INVALID_VALUE;
    function->dynamic_shared = value;
    return SUCCESS;
}

EXPORT int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    NEED_CONTEXT();
    if (!bytes) return INVALID_VALUE;
    if (bytes > MEMORY) return OUT_OF_MEMORY;
    *address = (uint64_t)aligned_alloc(256, (bytes + 255) / 256 * 256);
    count(1);
    return SUCCESS;
}

EXPORT int cuMemFree_v2(uint64_t address) {
    if (current != &context) return INVALID_CONTEXT;
    free((void *)address);
    count(-1);
    return failed;
}

EXPORT int cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
    NEED_CONTEXT();
    if (flags != 3) return INVALID_VALUE;
    if (bytes > MEMORY) return OUT_OF_MEMORY;
    *pointer = malloc(bytes);
    memset(*pointer, 0xee, bytes);
    count(1);
    return SUCCESS;
}

EXPORT int cuMemHostGetDevicePointer_v2(uint64_t *address, void *pointer, unsigned flags) {
    *address = (uint64_t)pointer;
    return flags ? INVALID_VALUE : SUCCESS;
}

EXPORT int cuMemFreeHost(void *pointer) {
    if (current != &context) return INVALID_CONTEXT;
    free(pointer);
    count(-1);
    return failed;
}

struct stream { unsigned flags; };

EXPORT int cuStreamCreate(struct stream **stream, unsigned flags) {
    NEED_CONTEXT();
    const int error = option("busy", SUCCESS);
    if (error) return error;
    if (flags != 1) return INVALID_VALUE;
    *stream = calloc(1, sizeof **stream);
    count(1);
    return SUCCESS;
}

EXPORT int cuStreamSynchronize(struct stream *stream) {
    NEED_CONTEXT();
    return stream ? SUCCESS : INVALID_VALUE;
}

EXPORT int cuStreamDestroy_v2(struct stream *stream) {
    free(stream);
    count(-1);
    return failed;
}

EXPORT int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, struct stream *stream) {
    NEED_CONTEXT();
    if (!stream) return INVALID_VALUE;
    memcpy((void *)to, (void *)from, bytes);
    return SUCCESS;
}

EXPORT int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, struct stream *stream) {
    NEED_CONTEXT();
    if (!stream) return INVALID_VALUE;
    memset((void *)to, value, bytes);
    return SUCCESS;
}

EXPORT int cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    NEED_CONTEXT();
    *least = 0;
    *greatest = -5;
    return SUCCESS;
}

struct attribute {
    int id;
    char unused[4];
    union {
        char all[64];
        int priority;
    } value;
};

struct launch {
    unsigned x, y, z, threads_x, threads_y, threads_z, shared_bytes;
    struct stream *stream;
    struct attribute *attributes;
    unsigned attribute_count;
};

EXPORT int cuLaunchKernelEx(const struct launch *launch, struct function *function,
                            void **arguments, void **extra) {
    NEED_CONTEXT();
    if (!launch->stream || extra) return INVALID_VALUE;
    if (launch->y * launch->z * launch->threads_y * launch->threads_z != 1) return INVALID_VALUE;
    if ((int)launch->shared_bytes > function->dynamic_shared) return INVALID_VALUE;
    if (launch->attribute_count != 1 || launch->attributes->id != 8) return INVALID_VALUE;
    const int priority = launch->attributes->value.priority;
    if (priority < -5 || priority > 0) return INVALID_VALUE;
    uint64_t *result = *(uint64_t **)arguments[0];
    if (result) *result = (uint64_t)launch->x * launch->threads_x;
    else __atomic_store_n(&failed, ILLEGAL_ADDRESS, __ATOMIC_SEQ_CST);
    return SUCCESS;
}

#ifndef WITHOUT_CALLBACKS
struct call {
    void (*function)(struct stream *, int, void *);
    struct stream *stream;
    void *data;
};

static void *make_call(void *argument) {
    struct call call = *(struct call *)argument;
    free(argument);
    call.function(call.stream, failed, call.data);
    return NULL;
}

EXPORT int cuStreamAddCallback(struct stream* stream, void (*function)(struct stream*, int, void*),
                               void* data, unsigned flags) {
    if (current != &context) return INVALID_CONTEXT;
    if (option("deaf", 0)) return ILLEGAL_ADDRESS;
    if (!stream || flags) return INVALID_VALUE;
    struct call *call = malloc(sizeof *call);
    *call = (struct call){function, stream, data};
    pthread_t thread;
    if (pthread_create(&thread, NULL, make_call, call)) return 999;
    pthread_detach(thread);
    return SUCCESS;
}
#endif

struct event { int is_recorded; };

EXPORT int cuEventCreate(struct event **event, unsigned flags) {
    NEED_CONTEXT();
    *event = calloc(1, sizeof **event);
    count(1);
    return flags ? INVALID_VALUE : SUCCESS;
}

EXPORT int cuEventRecord(struct event *event, struct stream *stream) {
    NEED_CONTEXT();
    event->is_recorded = 1;
    return stream ? SUCCESS : INVALID_VALUE;
}

EXPORT int cuStreamWaitEvent(struct stream *stream, struct event *event, unsigned flags) {
    NEED_CONTEXT();
    return stream && event->is_recorded && !flags ? SUCCESS : INVALID_VALUE;
}

EXPORT int cuEventElapsedTime(float *milliseconds, struct event *from, struct event *to) {
    NEED_CONTEXT();
    *milliseconds = 1.5f;
    return from->is_recorded && to->is_recorded ? SUCCESS : 400;
}

EXPORT int cuProfilerStart(void) { return state(); }

EXPORT int cuProfilerStop(void) { return state(); }

EXPORT int cuEventDestroy_v2(struct event *event) {
    free(event);
    count(-1);
    return failed;
}
