// A GPU that fails while a server uses it: preloaded into the server (LD_PRELOAD), this library
// launches a kernel in the server's own context, after GPU_FAULT_AFTER seconds, that writes to
// address 0. From then on every call of the driver in that process says that the device has
// failed, which is what a lost device looks like.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char PTX[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry fault() {\n"
    "  .reg .u64 %to;\n  mov.u64 %to, 0;\n  st.global.u32 [%to], 1;\n  ret;\n}\n";

#define NEED(call)                                              \
    do {                                                        \
        int code_ = (call);                                     \
        if (code_) {                                            \
            fprintf(stderr, "gpu-fault: %s: %d\n", #call, code_); \
            return NULL;                                        \
        }                                                       \
    } while (0)

static void *fault(void *seconds) {
    sleep((unsigned)(size_t)seconds);
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (!cuda) return NULL;
    int (*retain)(void **, int) = (int (*)(void **, int))dlsym(cuda, "cuDevicePrimaryCtxRetain");
    int (*set)(void *) = (int (*)(void *))dlsym(cuda, "cuCtxSetCurrent");
    int (*load)(void **, const void *) =
        (int (*)(void **, const void *))dlsym(cuda, "cuModuleLoadData");
    int (*get)(void **, void *, const char *) =
        (int (*)(void **, void *, const char *))dlsym(cuda, "cuModuleGetFunction");
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  void *, void **, void **) =
        (int (*)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                 void *, void **, void **))dlsym(cuda, "cuLaunchKernel");
    if (!retain || !set || !load || !get || !launch) return NULL;
    void *context, *module, *function;
    NEED(retain(&context, 0));
    NEED(set(context));
    NEED(load(&module, PTX));
    NEED(get(&function, module, "fault"));
    NEED(launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    fprintf(stderr, "gpu-fault: launched\n");
    return NULL;
}

__attribute__((constructor)) static void begin(void) {
    const char *after = getenv("GPU_FAULT_AFTER");
    pthread_t thread;
    if (after && !pthread_create(&thread, NULL, fault, (void *)(size_t)atoi(after)))
        pthread_detach(thread);
}
