// Stacks that one OS thread runs in turn.
#pragma once

namespace emulation {

// A stack with what runs on it.
struct Fiber {
    // Where it was left.
    void* context = nullptr;
    // Its lowest byte, and how much there is.
    char* stack = nullptr;
    unsigned long size = 0;
    // How far its first frame lies from its end.
    unsigned color = 0;
    // The address sanitizer's.
    void* fake_stack = nullptr;
};

// What runs on every made fiber; it switches away and never returns.
[[noreturn]] void fiber_main();

// Makes a stack with a page below it that faults. False: there is no memory.
bool fiber_make(Fiber& fiber, unsigned number);
// Lets it begin anew when it is switched to, whatever it did before.
void fiber_reset(Fiber& fiber);
void fiber_free(Fiber& fiber);
// Leaves one and goes on with the other. The first to be left is the OS thread's own stack, a Fiber
// that was not made.
void fiber_switch(Fiber& from, Fiber& to);

}  // namespace emulation
