/* The pager: how the library begins, asks it, and follows forks.
 *
 * A process that forks has the lock meanwhile, so the child finds the ranges whole. The child then
 * sends the pager new sockets and touches a byte of the region's first page, which nothing else
 * ever does: the pager said which, so the fault tells it which userfaultfd is this process's.
 */
#define _GNU_SOURCE
#include "venice.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

/* What older headers lack. */
#ifndef UFFD_FEATURE_PAGEFAULT_FLAG_WP
#define UFFD_FEATURE_PAGEFAULT_FLAG_WP (1 << 0)
#endif
#ifndef UFFD_FEATURE_EXACT_ADDRESS
#define UFFD_FEATURE_EXACT_ADDRESS (1 << 11)
#endif
#define FEATURES \
    (UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_EVENT_FORK | UFFD_FEATURE_THREAD_ID \
     | UFFD_FEATURE_EXACT_ADDRESS)
#define NEW_FROM_DEVICE _IO(0xAA, 0x00)
/* Where descriptors are put, out of the way of programs that count on low numbers. */
#define HIGH_FD 900

uintptr_t region_start, region_end;
size_t region_threshold;

static struct lock region_lock;
static int orders = -1, requests = -1;
/* Whose descriptors those are. */
static long process;
/* On a page that a child finds as zeros (MADV_WIPEONFORK), but not one that shares all memory
 * (vfork): whether this process has said to the pager that it is there. */
static volatile uint32_t *is_known;
/* The signals that the thread had blocked that forks. */
static uint64_t forks_signals;

static void __attribute__((noreturn)) refuse(const char *what, long error)
{
    char digits[24], *digit = digits + sizeof digits;
    *--digit = 0;
    for (long rest = -error; rest > 0 || !*digit; rest /= 10)
        *--digit = '0' + rest % 10;
    const char *parts[] = {"rhythm venice: ", what, " (errno ", digit, ")\n"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        raw3(SYS_write, 2, parts[i], length_of(parts[i]));
    raw1(SYS_exit_group, 126);
    __builtin_unreachable();
}

/* Out of the way of the program's own descriptors, and closed by exec. */
static int out_of_the_way(int fd)
{
    long high = raw3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, HIGH_FD);
    for (int low = 64; high == -EINVAL && low > 3; low /= 2)
        high = raw3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, low);
    if (high < 0)
        refuse("cannot have a descriptor: is there a limit (ulimit -n)?", high);
    raw1(SYS_close, fd);
    return high;
}

static void ask(uint32_t kind, uintptr_t a, size_t b, int answered)
{
    struct request request = {kind, 0, a, b, 0};
    uint32_t answer;
    int fds[2];
    if (send_with(requests, &request, sizeof request, 0, 0) < 0
        || (answered && receive(requests, &answer, sizeof answer, fds) <= 0))
        say_and_end("rhythm venice: the pager cannot be asked: it is gone, or the program "
                         "closed the descriptor to it\n");
}

void link_discard_begin(uintptr_t address, size_t bytes)
{
    ask(ASK_DISCARD, address, bytes, 1);
}

void link_discard_end(uintptr_t address, size_t bytes)
{
    ask(ASK_DISCARDED, address, bytes, 0);
}

void link_discard(uintptr_t address, size_t bytes)
{
    link_discard_begin(address, bytes);
    raw3(SYS_madvise, address, bytes, MADV_DONTNEED);
    link_discard_end(address, bytes);
}

int link_descriptor(void)
{
    return requests;
}

int link_make_way(int fd)
{
    if (fd < 0 || fd != requests)
        return 0;
    int error = 0;
    uint64_t signals = region_enter();
    /* A child that shares the memory (vfork) has descriptors of its own: there it may go. */
    if (fd == requests && raw1(SYS_getpid, 0) == process) {
        long other = raw3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, fd);
        if (other < 0)
            other = raw3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 3);
        if (other < 0)
            error = other;
        else
            requests = other;
    }
    region_leave(signals);
    return error;
}

/* Has the pager know a child: it has its parent's descriptors and helper no more. */
static void become_known(void)
{
    int own[2], other[2];
    long failed = raw4(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, own);
    if (!failed)
        failed = raw4(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, other);
    if (failed)
        say_and_end("rhythm venice: a forked process has no descriptors left for the pager\n");
    process = raw1(SYS_getpid, 0);
    struct request request = {ASK_FORKED, 0, 0, 0, 0};
    int far[2] = {own[1], other[1]}, fds[2];
    uint32_t byte;
    if (send_with(requests, &request, sizeof request, far, 2) < 0)
        say_and_end("rhythm venice: the pager is gone, and with it memory of this program\n");
    raw1(SYS_close, own[1]);
    raw1(SYS_close, other[1]);
    raw1(SYS_close, requests);
    orders = out_of_the_way(own[0]);
    requests = out_of_the_way(other[0]);
    if (receive(requests, &byte, sizeof byte, fds) != sizeof byte)
        say_and_end("rhythm venice: the pager is gone, and with it memory of this program\n");
    raw3(SYS_madvise, region_start, PAGE, MADV_DONTNEED);
    (void)*(volatile char *)(region_start + byte % PAGE);
    helper_start(orders);
    orders = -1;
    raw3(SYS_madvise, region_start, PAGE, MADV_DONTNEED);
    *is_known = 1;
}

static uint64_t hold_signals(void)
{
    uint64_t all = ~0UL, before;
    raw4(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, 8);
    return before;
}

static void let_signals(uint64_t before)
{
    raw4(SYS_rt_sigprocmask, SIG_SETMASK, &before, 0, 8);
}

uint64_t region_enter(void)
{
    uint64_t signals = hold_signals();
    if (!*is_known) {
        /* A child that was made past fork(): what its parent's threads held is free. What it asked
         * by its parent's descriptors would be done to its parent. The lock, for threads that it
         * may have by now, lies beside, where a child finds zeros. */
        struct lock *lock = (struct lock *)(is_known + 1);
        lock_take(lock);
        if (!*is_known) {
            region_lock.word = 0;
            small_in_child();
            become_known();
        }
        lock_leave(lock);
    }
    lock_take(&region_lock);
    return signals;
}

void region_leave(uint64_t signals)
{
    lock_leave(&region_lock);
    let_signals(signals);
}

static void before_fork(void)
{
    uint64_t signals = hold_signals();
    small_before_fork();
    region_enter();
    forks_signals = signals;
}

static void in_parent(void)
{
    uint64_t signals = forks_signals;
    lock_leave(&region_lock);
    small_in_parent();
    let_signals(signals);
}

static void in_child(void)
{
    region_lock.word = 0;
    small_in_child();
    become_known();
    let_signals(forks_signals);
}

static unsigned long number(const char **text)
{
    unsigned long value = 0;
    while (**text >= '0' && **text <= '9')
        value = value * 10 + (*(*text)++ - '0');
    if (**text == ',')
        (*text)++;
    return value;
}

/* Takes the library's own settings out of the environment: what the program starts has none. What
 * LD_PRELOAD had besides stays. */
static const char *take_settings(char **environment)
{
    static const char ours[] = "RHYTHM_VENICE=", preload[] = "LD_PRELOAD=";
    const char *settings = 0;
    char **kept = environment;
    for (char **entry = environment; *entry; entry++) {
        if (!strncmp(*entry, ours, sizeof ours - 1)) {
            settings = *entry + sizeof ours - 1;
            continue;
        }
        *kept++ = *entry;
    }
    *kept = 0;
    if (!settings)
        return 0;
    kept = environment;
    for (char **entry = environment; *entry; entry++) {
        if (!strncmp(*entry, preload, sizeof preload - 1)) {
            char *list = *entry + sizeof preload - 1, *rest = strchr(list, ':');
            if (!rest)
                continue;
            memmove(list, rest + 1, strlen(rest + 1) + 1);
        }
        *kept++ = *entry;
    }
    *kept = 0;
    return settings;
}

static int open_userfaultfd(void)
{
    long uffd = raw1(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    if (uffd < 0) {
        long device = raw3(SYS_openat, AT_FDCWD, "/dev/userfaultfd", O_RDWR | O_CLOEXEC);
        if (device < 0)
            refuse("userfaultfd(2) is refused: run as root", uffd);
        uffd = raw3(SYS_ioctl, device, NEW_FROM_DEVICE, O_CLOEXEC | O_NONBLOCK);
        raw1(SYS_close, device);
        if (uffd < 0)
            refuse("/dev/userfaultfd gives no descriptor", uffd);
    }
    struct uffdio_api api = {.api = UFFD_API, .features = FEATURES};
    long failed = raw3(SYS_ioctl, uffd, UFFDIO_API, &api);
    if (failed)
        refuse("userfaultfd does not tell of forks and writes: that needs root "
               "(CAP_SYS_PTRACE) and Linux 5.19 or later", failed);
    return uffd;
}

/* The library's start; it is the first there is in the program (-z initfirst), so that its handler
 * of forks is the last that is called before one. */
static void __attribute__((constructor)) start(int argc, char **argv, char **environment)
{
    (void)argc;
    (void)argv;
    const char *settings = take_settings(environment);
    if (!settings)
        return;
    orders = out_of_the_way(number(&settings));
    requests = out_of_the_way(number(&settings));
    raw1(SYS_close, number(&settings));
    size_t bytes = number(&settings);
    region_threshold = number(&settings);

    int uffd = open_userfaultfd();
    long region = raw6(SYS_mmap, 0, bytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region < 0 && region > -4096)
        refuse("cannot reserve addresses: is there a limit (ulimit -v)?", region);
    raw3(SYS_madvise, region, bytes, MADV_NOHUGEPAGE);
    struct uffdio_register area = {
        .range = {region, bytes},
        .mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP,
    };
    long failed = raw3(SYS_ioctl, uffd, UFFDIO_REGISTER, &area);
    if (failed)
        refuse("cannot register memory with userfaultfd", failed);
    raw3(SYS_mprotect, region, PAGE, PROT_READ);
    long known = raw6(SYS_mmap, 0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                      0);
    if (known < 0 && known > -4096)
        refuse("no memory for its tables", known);
    failed = raw3(SYS_madvise, known, PAGE, MADV_WIPEONFORK);
    if (failed)
        refuse("cannot follow forks", failed);
    is_known = (volatile uint32_t *)known;
    *is_known = 1;

    process = raw1(SYS_getpid, 0);
    struct request request = {ASK_HELLO, 0, region, bytes, process};
    uint32_t answer;
    int fds[2];
    if (send_with(requests, &request, sizeof request, &uffd, 1) < 0
        || receive(requests, &answer, sizeof answer, fds) <= 0)
        refuse("the pager is gone", -EPIPE);
    raw1(SYS_close, uffd);
    helper_start(orders);
    orders = -1;
    if (pthread_atfork(before_fork, in_parent, in_child))
        refuse("cannot follow forks", -ENOMEM);
    if (!small_start(region, region + bytes) || !ranges_start(region + PAGE, region + bytes))
        refuse("no memory for its tables", -ENOMEM);
    region_end = region + bytes;
    __atomic_store_n(&region_start, (uintptr_t)region, __ATOMIC_RELEASE);
}
