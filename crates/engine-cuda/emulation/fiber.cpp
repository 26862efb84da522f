#include "fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#if !defined(__x86_64__) || defined(RHYTHM_EMULATION_UCONTEXT)
#define USE_UCONTEXT 1
#include <ucontext.h>
#endif

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace emulation {

namespace {

// As large as any page of the processors this runs on.
constexpr unsigned long GUARD = 64 * 1024;
#ifdef __SANITIZE_ADDRESS__
// Instrumented frames are several times as large.
constexpr unsigned long STACK = 512 * 1024;
#else
constexpr unsigned long STACK = 128 * 1024;
#endif
// Stacks of one size lie on the same lines of the caches: their first frames are moved apart by so
// much, so many times.
constexpr unsigned COLOR = 192;
constexpr unsigned COLORS = 21;

#ifdef __SANITIZE_ADDRESS__
__thread Fiber* left;
#endif

// The first to be called after a switch, on the stack that was switched to.
inline void arrived([[maybe_unused]] Fiber* self) {
#ifdef __SANITIZE_ADDRESS__
    const void* bottom = nullptr;
    unsigned long size = 0;
    __sanitizer_finish_switch_fiber(self ? self->fake_stack : nullptr, &bottom, &size);
    // That is how it tells where the OS thread's own stack is.
    left->stack = static_cast<char*>(const_cast<void*>(bottom));
    left->size = size;
#endif
}

void begin() {
    arrived(nullptr);
    fiber_main();
}

}  // namespace

#ifndef USE_UCONTEXT
// Saves what a function must keep (System V ABI; nobody changes the floating point modes) and takes
// up the other stack.
extern "C" void rhythm_emulation_switch(void** save, void* load);
asm(R"(
    .text
    .globl rhythm_emulation_switch
    .hidden rhythm_emulation_switch
    .type rhythm_emulation_switch, @function
    .p2align 4
rhythm_emulation_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size rhythm_emulation_switch, .-rhythm_emulation_switch
)");
#endif

bool fiber_make(Fiber& fiber, unsigned number) {
    void* all = mmap(nullptr, GUARD + STACK, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return false;
    if (mprotect(all, GUARD, PROT_NONE) != 0) {
        munmap(all, GUARD + STACK);
        return false;
    }
    fiber.stack = static_cast<char*>(all) + GUARD;
    fiber.size = STACK;
    fiber.color = number % COLORS * COLOR;
#ifdef USE_UCONTEXT
    fiber.context = malloc(sizeof(ucontext_t));
    if (fiber.context == nullptr) {
        fiber_free(fiber);
        return false;
    }
#endif
    fiber_reset(fiber);
    return true;
}

void fiber_reset(Fiber& fiber) {
    fiber.fake_stack = nullptr;
#ifdef __SANITIZE_ADDRESS__
    // Frames that are never returned from leave their marks.
    __asan_unpoison_memory_region(fiber.stack, fiber.size);
#endif
#ifdef USE_UCONTEXT
    ucontext_t* context = static_cast<ucontext_t*>(fiber.context);
    getcontext(context);
    context->uc_stack.ss_sp = fiber.stack;
    context->uc_stack.ss_size = fiber.size - fiber.color;
    context->uc_link = nullptr;
    makecontext(context, begin, 0);
#else
    // As rhythm_emulation_switch leaves a stack: six registers, and where to return to. A function
    // begins with its stack 8 bytes off a multiple of 16, and finds no caller here.
    uintptr_t top =
        reinterpret_cast<uintptr_t>(fiber.stack + fiber.size - fiber.color) & ~uintptr_t(15);
    void** words = reinterpret_cast<void**>(top) - 8;
    for (int i = 0; i < 8; i++) words[i] = nullptr;
    words[6] = reinterpret_cast<void*>(begin);
    fiber.context = words;
#endif
}

void fiber_free(Fiber& fiber) {
#ifdef USE_UCONTEXT
    free(fiber.context);
#endif
#ifdef __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region(fiber.stack, fiber.size);
#endif
    munmap(fiber.stack - GUARD, GUARD + STACK);
    fiber = Fiber();
}

void fiber_switch(Fiber& from, Fiber& to) {
#ifdef __SANITIZE_ADDRESS__
    left = &from;
    __sanitizer_start_switch_fiber(&from.fake_stack, to.stack, to.size);
#endif
#ifdef USE_UCONTEXT
    ucontext_t own;
    if (from.context == nullptr) from.context = &own;
    swapcontext(static_cast<ucontext_t*>(from.context), static_cast<ucontext_t*>(to.context));
    if (from.context == &own) from.context = nullptr;
#else
    rhythm_emulation_switch(&from.context, to.context);
#endif
    arrived(&from);
}

}  // namespace emulation
