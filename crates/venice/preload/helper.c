/* The helper: a thread that the C library knows nothing of.
 *
 * It evicts pages as it is told, since nobody can drop a page of another process, and it ends the
 * program when the pager is gone: it has the userfaultfd open, so that no thread sees a page of
 * zeros before. Its table of descriptors is its own, so that a program that closes all it finds
 * does not close these; its signals are all blocked; it has no capabilities.
 */
#define _GNU_SOURCE
#include "venice.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#define GONE "rhythm venice: the pager is gone, and with it memory of this program\n"

/* How often it is tried to protect an order's pages while the program forks, at 1 ms intervals. */
#define FORK_TRIES 20

static int orders_fd, buffer_fd, kept_uffd, memory_fd;
static uint32_t attached;
static char stack[64 * 1024] __attribute__((aligned(64)));

size_t length_of(const char *text)
{
    size_t length = 0;
    while (text[length])
        length++;
    return length;
}

/* Says why, unless nobody reads it, whom the end is not to wait for. */
static void say(const void *text, size_t length)
{
    struct pollfd errors = {.fd = 2, .events = POLLOUT};
    struct timespec no_time = {0, 0};
    if (raw6(SYS_ppoll, &errors, 1, &no_time, 0, 0, 0) == 1 && (errors.revents & POLLOUT))
        raw3(SYS_write, 2, text, length);
}

/* The whole process ends, by a signal that no handler gets to see. */
static void __attribute__((noreturn)) end(void)
{
    struct { void *handler; unsigned long flags; void *restorer; unsigned long mask; } action = {0};
    raw4(SYS_rt_sigaction, SIGBUS, &action, 0, 8);
    raw2(SYS_kill, raw1(SYS_getpid, 0), SIGBUS);
    /* Blocked here; in another thread it is not, or this ends it. */
    unsigned long none = 0;
    raw4(SYS_rt_sigprocmask, SIG_SETMASK, &none, 0, 8);
    raw1(SYS_exit_group, 128 + SIGBUS);
    __builtin_unreachable();
}

void say_and_end(const char *text)
{
    say(text, length_of(text));
    end();
}

long send_with(int socket, const void *bytes, size_t length, const int *fds, size_t count)
{
    char control[CMSG_SPACE(2 * sizeof(int))] __attribute__((aligned(8))) = {0};
    struct iovec part = {(void *)bytes, length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(count * sizeof(int));
        for (size_t i = 0; i < count; i++)
            ((int *)CMSG_DATA(head))[i] = fds[i];
    }
    long sent;
    do
        sent = raw3(SYS_sendmsg, socket, &message, MSG_NOSIGNAL);
    while (sent == -EINTR);
    return sent;
}

/* Receives a message, and the descriptors that came with it, -1 for those that did not. */
long receive(int socket, void *bytes, size_t length, int fds[2])
{
    char control[CMSG_SPACE(2 * sizeof(int))] __attribute__((aligned(8)));
    struct iovec part = {bytes, length};
    struct msghdr message = {
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = control,
        .msg_controllen = sizeof control,
    };
    long got;
    do
        got = raw3(SYS_recvmsg, socket, &message, MSG_CMSG_CLOEXEC);
    while (got == -EINTR);
    fds[0] = fds[1] = -1;
    if (got < 0)
        return got;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); head; head = 0) {
        size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count && i < 2; i++)
            fds[i] = ((int *)CMSG_DATA(head))[i];
    }
    return got;
}

/* Has writes to a range wait. While a fork is under way that is refused, so it is waited for, but
 * only `tries` times: where the pager is gone nobody lets it go on. */
static long protect_range(uintptr_t start, size_t bytes, int *tries)
{
    struct uffdio_writeprotect range = {
        .range = {start, bytes},
        .mode = UFFDIO_WRITEPROTECT_MODE_WP,
    };
    struct timespec moment = {0, 1000000};
    long result;
    while ((result = raw3(SYS_ioctl, kept_uffd, UFFDIO_WRITEPROTECT, &range)) == -EINTR
           || (result == -EAGAIN && (*tries)-- > 0))
        raw2(SYS_nanosleep, &moment, 0);
    return result;
}

/* Has writes to the pages wait. Yields a bit for each that could not be protected: what somebody
 * mapped over the region who did not say so, which is not to be dropped, however clean the page was
 * that was there. */
static uint64_t protect(const struct order *order)
{
    uint64_t failed = 0;
    int tries = FORK_TRIES;
    for (uint32_t i = 0; i < order->count;) {
        uintptr_t start = order->page[i] & ~1UL;
        uint32_t next = i + 1;
        while (next < order->count && (order->page[next] & ~1UL) == start + (next - i) * PAGE)
            next++;
        long result = protect_range(start, (next - i) * PAGE, &tries);
        for (; i < next; i++, start += PAGE) {
            long one = result;
            /* Not all are the region's; or they are of several mappings, before Linux 6.4. */
            if (result == -ENOENT)
                one = protect_range(start, PAGE, &tries);
            if (one != 0)
                failed |= 1UL << i;
        }
    }
    return failed;
}

/* Copies a page, also one that the program may not read. */
static int copy_one(uintptr_t page, uint64_t place)
{
    static char bytes[PAGE];
    if (raw4(SYS_pwrite64, buffer_fd, page, PAGE, place) == (long)PAGE)
        return 1;
    return raw4(SYS_pread64, memory_fd, bytes, PAGE, page) == (long)PAGE
           && raw4(SYS_pwrite64, buffer_fd, bytes, PAGE, place) == (long)PAGE;
}

/* Copies the dirty pages that are protected into the buffer, each to its place. */
static uint64_t copy_out(const struct order *order, uint64_t failed)
{
    struct iovec parts[ORDER_PAGES];
    uint64_t place = order->place;
    for (uint32_t i = 0; i < order->count;) {
        uint32_t count = 0, first = i;
        for (; i < order->count && !(failed >> i & 1); i++)
            if (order->page[i] & 1)
                parts[count++] = (struct iovec){(void *)(order->page[i] & ~1UL), PAGE};
        if (count) {
            long wrote = raw6(SYS_pwritev, buffer_fd, parts, count, place, 0, 0);
            if (wrote != (long)(count * PAGE)) {
                /* Some page cannot be read: each for itself tells which. */
                uint32_t k = 0;
                for (uint32_t j = first; j < i; j++) {
                    if (!(order->page[j] & 1))
                        continue;
                    if (!copy_one(order->page[j] & ~1UL, place + k++ * PAGE))
                        failed |= 1UL << j;
                }
            }
            place += count * PAGE;
        }
        for (; i < order->count && (failed >> i & 1); i++)
            if (order->page[i] & 1)
                place += PAGE;
    }
    return failed;
}

static uint64_t drop(const struct order *order, uint64_t failed)
{
    for (uint32_t i = 0; i < order->count;) {
        if (failed >> i & 1) {
            i++;
            continue;
        }
        uintptr_t start = order->page[i] & ~1UL;
        uint32_t next = i + 1;
        while (next < order->count && !(failed >> next & 1)
               && (order->page[next] & ~1UL) == start + (next - i) * PAGE)
            next++;
        long result = raw3(SYS_madvise, start, (next - i) * PAGE, MADV_DONTNEED);
        for (; i < next; i++, start += PAGE) {
            if (result == 0)
                continue;
            /* Some of them are gone, perhaps: each for itself tells which. One that is not mapped
             * any more is gone, too. */
            long one = raw3(SYS_madvise, start, PAGE, MADV_DONTNEED);
            if (one != 0 && one != -ENOMEM)
                failed |= 1UL << i;
        }
    }
    return failed;
}

/* The helper's thread. It calls nothing of the C library. */
static int run(void *unused)
{
    (void)unused;
    struct order order;
    struct answer answer = {0, 0, 0};
    int fds[2], socket = orders_fd;
    struct __user_cap_header_struct who = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct no_capabilities[2] = {{0}};

    /* Its own table from here on: nothing of the program's is held open. */
    if (socket > 3)
        raw3(SYS_close_range, 3, socket - 1, 0);
    raw3(SYS_close_range, socket + 1, ~0U, 0);
    raw3(SYS_close_range, 0, 1, 0);
    memory_fd = raw3(SYS_openat, AT_FDCWD, "/proc/self/mem", O_RDONLY | O_CLOEXEC);
    answer.thread = raw1(SYS_gettid, 0);
    for (;;) {
        long got = receive(socket, &order, sizeof order, fds);
        if (got < 16)
            say_and_end(GONE);
        answer.kind = order.kind;
        answer.done = 0;
        switch (order.kind) {
        case ORDER_ATTACH:
            kept_uffd = fds[0];
            buffer_fd = fds[1];
            raw2(SYS_capset, &who, no_capabilities);
            __atomic_store_n(&attached, 1, __ATOMIC_RELEASE);
            raw3(SYS_futex, &attached, FUTEX_WAKE_PRIVATE, 1);
            break;
        case ORDER_EVICT: {
            uint64_t failed = protect(&order);
            failed = copy_out(&order, failed);
            failed = drop(&order, failed);
            answer.done = ~failed;
            break;
        }
        default:
            if (order.count < sizeof order.page)
                say(order.page, order.count);
            end();
        }
        send_with(socket, &answer, sizeof answer, 0, 0);
    }
}

/* Starts the helper, and waits until the program would not outlive the pager. */
void helper_start(int orders)
{
    orders_fd = orders;
    unsigned long all = ~0UL, before;
    __atomic_store_n(&attached, 0, __ATOMIC_RELEASE);
    raw4(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, 8);
    int flags = CLONE_VM | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    int thread = clone(run, stack + sizeof stack, flags, 0);
    raw4(SYS_rt_sigprocmask, SIG_SETMASK, &before, 0, 8);
    if (thread < 0)
        say_and_end("rhythm venice: cannot start a thread\n");
    while (!__atomic_load_n(&attached, __ATOMIC_ACQUIRE))
        raw4(SYS_futex, &attached, FUTEX_WAIT_PRIVATE, 0, 0);
    raw1(SYS_close, orders);
}

