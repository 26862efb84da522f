// What src/gpu/emulated.rs calls.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler.h"

namespace emulation {

namespace {

// Filled before main begins, only read afterwards.
const Kernel* kernels = nullptr;

struct LaunchMemory {
    Launch* launch = nullptr;
    ~LaunchMemory() { free(launch); }
};
thread_local LaunchMemory launch_memory;

const Kernel* find(const char* name) {
    for (const Kernel* kernel = kernels; kernel != nullptr; kernel = kernel->next) {
        if (strcmp(kernel->name, name) == 0) return kernel;
    }
    return nullptr;
}

}  // namespace

Kernel::Kernel(const char* name, unsigned long args_size, unsigned threads, Body body)
    : name(name), args_size(args_size), threads(threads), body(body), next(kernels) {
    kernels = this;
}

}  // namespace emulation

using namespace emulation;

extern "C" {

// The bytes of a kernel's struct of arguments; none: -1.
long rhythm_emulation_arguments_size(const char* name) {
    const Kernel* kernel = find(name);
    return kernel ? long(kernel->args_size) : -1;
}

// Just so many bytes, 256-byte aligned, filled with garbage or zeroed.
void* rhythm_emulation_allocate(unsigned long bytes, int zeroed) {
    void* memory = nullptr;
    if (posix_memalign(&memory, 256, bytes) != 0) return nullptr;
    memset(memory, zeroed ? 0 : 0xc5, bytes);
    return memory;
}

void rhythm_emulation_free(void* memory) { free(memory); }

// Of no bytes, as the driver does it: the addresses are not looked at.
void rhythm_emulation_copy(void* to, const void* from, unsigned long bytes) {
    if (bytes > 0) memmove(to, from, bytes);
}

void rhythm_emulation_fill(void* to, int value, unsigned long bytes) {
    if (bytes > 0) memset(to, value, bytes);
}

// Runs a kernel to its end. 0: done; 1: it cannot be launched so; 2: it failed. `error` says why.
int rhythm_emulation_launch(const char* name, unsigned blocks, unsigned threads,
                            unsigned shared_bytes, const void* args, unsigned long args_size,
                            unsigned order, unsigned long long seed, char* error,
                            unsigned long error_size) {
    const Kernel* kernel = find(name);
    if (kernel == nullptr) {
        snprintf(error, error_size, "there is no kernel %s", name);
        return 1;
    }
    if (args_size != kernel->args_size) {
        snprintf(error, error_size, "kernel %s takes %lu bytes of arguments, not %lu", name,
                 kernel->args_size, args_size);
        return 1;
    }
    if (blocks == 0 || blocks > 0x7fffffffu || threads == 0 || threads > kernel->threads ||
        threads > MAX_THREADS) {
        snprintf(error, error_size, "kernel %s takes up to %u threads a block, not %u blocks of %u",
                 name, kernel->threads, blocks, threads);
        return 1;
    }
    if (shared_bytes > MAX_SHARED) {
        snprintf(error, error_size, "kernel %s: %u bytes of shared memory are too much", name,
                 shared_bytes);
        return 1;
    }
    // A copy: whoever launches may change its own at once.
    void* copy = malloc(args_size);
    if (launch_memory.launch == nullptr)
        launch_memory.launch = static_cast<Launch*>(calloc(1, sizeof(Launch)));
    Launch* of = launch_memory.launch;
    if (copy == nullptr || of == nullptr) {
        free(copy);
        snprintf(error, error_size, "kernel %s: the host has no memory", name);
        return 1;
    }
    memcpy(copy, args, args_size);
    of->kernel = kernel;
    of->args = copy;
    of->order = static_cast<Order>(order);
    of->random.state = seed * 2 + 0x9e3779b97f4a7c15ull;
    of->threads = threads;
    of->blocks = blocks;
    of->shared_bytes = shared_bytes;
    of->blocks_begun = 0;
    of->atomics = 0;
    of->array_count = 0;
    of->array_bytes = 0;
    of->dynamic = {};
    of->failed = false;
    of->error = error;
    of->error_size = error_size;
    for (unsigned i = 0; i < threads; i++) {
        of->threads_of_block[i].place = {{i, 0, 0}, {0, 0, 0}, {threads, 1, 1}, {blocks, 1, 1}};
    }
    bool done = run(*of);
    free(copy);
    return done ? 0 : 2;
}
}
