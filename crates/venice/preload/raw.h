/* What the library needs of the kernel, without the C library in between.
 *
 * The helper thread shares the thread-local storage of the thread that made it, errno included, so
 * nothing that it calls may touch that: its system calls are these, which return -errno. The other
 * functions use them too, since the C library's mmap() is what this library stands in for.
 */
#ifndef RHYTHM_VENICE_RAW_H
#define RHYTHM_VENICE_RAW_H

#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
static inline long raw(long n, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
static inline long raw(long n, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = n;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
}
#else
#error "rhythm venice run is for x86-64 and AArch64"
#endif

#define raw1(n, a) raw(n, (long)(a), 0, 0, 0, 0, 0)
#define raw2(n, a, b) raw(n, (long)(a), (long)(b), 0, 0, 0, 0)
#define raw3(n, a, b, c) raw(n, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define raw4(n, a, b, c, d) raw(n, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define raw6(n, a, b, c, d, e, f) \
    raw(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

#define PAGE 4096UL

/* A lock that sleeps in the kernel: 0 free, 1 held, 2 held and waited for (Drepper, "Futexes are
 * tricky", 2011). It is the last that is taken on any way, and held over a fork. */
struct lock {
    uint32_t word;
};

#define FUTEX_WAIT_PRIVATE 128
#define FUTEX_WAKE_PRIVATE 129

static inline void lock_take(struct lock *lock)
{
    uint32_t seen = 0;
    if (__atomic_compare_exchange_n(&lock->word, &seen, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return;
    while (__atomic_exchange_n(&lock->word, 2, __ATOMIC_ACQUIRE) != 0)
        raw4(SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, 2, 0);
}

static inline void lock_leave(struct lock *lock)
{
    if (__atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE) == 2)
        raw3(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1);
}

#endif
