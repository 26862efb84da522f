/* The program's modes that are about processes. */
#define _GNU_SOURCE
#include "program.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static uint64_t rounds[1 << 20];
static volatile int over;

static void *write_on(void *unused)
{
    (void)unused;
    uint64_t random = 1;
    while (!over) {
        pthread_mutex_lock(&turn);
        for (int i = 0; i < 64; i++) {
            random = random * 6364136223846793005UL + 1442695040888963407UL;
            size_t page = (random >> 33) % pages;
            put(page, ++rounds[page]);
        }
        pthread_mutex_unlock(&turn);
    }
    return 0;
}

void forks(void)
{
    pthread_t writer;
    for (size_t page = 0; page < pages; page++)
        put(page, 0);
    CHECK(pthread_create(&writer, 0, write_on, 0) == 0);
    for (int i = 0; i < 6; i++) {
        pthread_mutex_lock(&turn);
        pid_t child = fork();
        pthread_mutex_unlock(&turn);
        if (child == 0) {
            for (int again = 0; again < 2; again++)
                for (size_t page = 0; page < pages; page++)
                    CHECK(has(page, rounds[page]));
            /* What it writes is its own, and what it forks sees that. */
            for (size_t page = 0; page < pages; page += 3)
                put(page, 77);
            pid_t grandchild = fork();
            if (grandchild != 0)
                for (size_t page = 0; page < pages; page += 2)
                    put(page, 99);
            for (size_t page = 0; page < pages; page++) {
                uint64_t round = page % 3 == 0 ? 77 : rounds[page];
                CHECK(has(page, grandchild && page % 2 == 0 ? 99 : round));
            }
            int status = 0;
            CHECK(!grandchild || (wait(&status) == grandchild && status == 0));
            _exit(0);
        }
        CHECK(child > 0);
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    /* A child that executes something has none of this. */
    CHECK(system("exit 7") == 7 << 8);
    pid_t child = fork();
    if (child == 0)
        execlp("true", "true", (char *)0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    over = 1;
    pthread_join(writer, 0);
    for (size_t page = 0; page < pages; page++)
        CHECK(has(page, rounds[page]));
}

/* As a daemon does: who forked is gone at once, with pages just leaving. */
void daemons(void)
{
    for (size_t page = 0; page < pages; page++)
        put(page, 0);
    for (uint64_t round = 1; round <= 20; round++) {
        for (size_t page = round % 3; page < pages; page += 3) {
            CHECK(has(page, rounds[page]));
            put(page, rounds[page] = round);
        }
        pid_t child = fork();
        CHECK(child >= 0);
        if (child != 0)
            _exit(0);
        for (size_t page = pages; page-- > 0;)
            CHECK(has(page, rounds[page]));
    }
}
/* A child that the C library knows nothing of. */
static pid_t raw_fork(void)
{
    return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static void wait_for(pid_t child)
{
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

static volatile int mapped_by_handler;

static void on_alarm(int signal)
{
    (void)signal;
    char *mapping = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapping != MAP_FAILED && mapping[5] == 0);
    mapping[5] = 1;
    CHECK(munmap(mapping, 1 << 20) == 0);
    mapped_by_handler++;
}

/* What programs do that think they are alone. */
void habits(void)
{
    for (size_t page = 0; page < pages; page++)
        put(page, 3);
    /* A child past fork() drops what its parent needs. */
    pid_t child = raw_fork();
    if (child == 0) {
        alarm(100);
        CHECK(madvise((void *)memory, bytes / 2, MADV_DONTNEED) == 0);
        for (size_t page = 0; page < pages / 2; page++) {
            CHECK(*first_of(page) == 0);
            put(page, 4);
        }
        child = fork();
        if (child == 0) {
            for (size_t page = 0; page < pages; page++)
                CHECK(has(page, page < pages / 2 ? 4 : 3));
            _exit(0);
        }
        wait_for(child);
        for (size_t page = 0; page < pages; page++)
            CHECK(has(page, page < pages / 2 ? 4 : 3));
        _exit(0);
    }
    wait_for(child);
    for (size_t page = 0; page < pages; page++)
        CHECK(has(page, 3));
    /* Descriptors are closed by who did not open them, and their numbers used. */
    CHECK(close_range(3, ~0U, 0) == 0);
    for (int fd = 3; fd < 1024; fd++) {
        close(fd);
        if (fd >= 890)
            CHECK(dup2(1, fd) == fd);
    }
    CHECK(dup2(1023, 1023) == 1023 && dup2(5, 5) == -1 && errno == EBADF);
    CHECK(madvise((void *)memory, 10 * PAGE, MADV_DONTNEED) == 0 && *memory == 0);
    for (size_t page = 0; page < 10; page++)
        put(page, 3);
    /* A child that shares all memory and has descriptors of its own. */
    child = vfork();
    if (child == 0) {
        for (int fd = 3; fd < 1100; fd++)
            if (dup2(1, fd) < 0)
                break;
        execlp("true", "true", (char *)0);
        _exit(1);
    }
    wait_for(child);
    /* Handlers map memory, whatever they interrupt. */
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    signal(SIGALRM, on_alarm);
    CHECK(setitimer(ITIMER_REAL, &often, 0) == 0);
    while (mapped_by_handler < 100) {
        char *mapping = map(1 << 20);
        mapping[9] = 1;
        CHECK(munmap(mapping, 1 << 20) == 0);
    }
    CHECK(setitimer(ITIMER_REAL, &never, 0) == 0);
    /* Sizes that no mapping has. */
    char *mapping = map(1 << 20);
    mapping[7] = 7;
    CHECK(mremap(mapping, 1 << 20, SIZE_MAX - 5, MREMAP_MAYMOVE) == MAP_FAILED);
    CHECK(mapping[7] == 7 && errno == ENOMEM);
    volatile size_t most = SIZE_MAX;
    CHECK(!malloc(most - 5000) && !calloc(most / 2, 3));
    for (size_t page = 0; page < pages; page++)
        CHECK(has(page, 3));
}
/* Looks into a process, as a debugger does, until it is gone. */
static void *look_into(void *process)
{
    uint64_t random = (uintptr_t)process, word;
    for (int i = 0; i < 1000; i++) {
        random = random * 6364136223846793005UL + 1442695040888963407UL;
        struct iovec here = {&word, sizeof word};
        struct iovec there = {(void *)first_of((random >> 33) % pages), sizeof word};
        if (process_vm_readv((pid_t)(uintptr_t)process, &here, 1, &there, 1, 0) < 0)
            break;
    }
    return 0;
}

/* Processes that are stopped keep nobody else from going on, although pages of theirs that are to
 * leave cannot. */
void stopped(void)
{
    enum { CHILDREN = 12 };
    pid_t children[CHILDREN];
    pthread_t debuggers[CHILDREN];
    for (size_t page = 0; page < pages; page++)
        put(page, 1);
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            raise(SIGSTOP);
            _exit(0);
        }
        CHECK(children[i] > 0 && waitpid(children[i], 0, WUNTRACED) == children[i]);
    }
    for (int i = 0; i < CHILDREN; i++) {
        void *process = (void *)(uintptr_t)children[i];
        CHECK(pthread_create(&debuggers[i], 0, look_into, process) == 0);
    }
    usleep(300000);
    for (uint64_t round = 2; round < 4; round++) {
        for (size_t page = 0; page < pages; page++)
            put(page, round);
        for (size_t page = 0; page < pages; page++)
            CHECK(has(page, round));
    }
    for (int i = 0; i < CHILDREN; i++) {
        CHECK(kill(children[i], SIGKILL) == 0);
        CHECK(waitpid(children[i], 0, 0) == children[i]);
        pthread_join(debuggers[i], 0);
    }
}

static int read_on(void *unused)
{
    (void)unused;
    for (;;)
        for (size_t page = 0; page < pages; page++)
            CHECK(has(page, 1));
    return 0;
}

/* Who shares all memory goes on when this process ends. */
void shares(void)
{
    static char stack[64 * 1024] __attribute__((aligned(64)));
    for (size_t page = 0; page < pages; page++)
        put(page, 1);
    CHECK(clone(read_on, stack + sizeof stack, CLONE_VM | SIGCHLD, 0) > 0);
    usleep(100000);
}
/* A child that the library knows nothing of reads all when its parent is gone. */
void silent(void)
{
    for (size_t page = 0; page < pages; page++)
        put(page, 1);
    pid_t parent = getpid(), child = raw_fork();
    CHECK(child >= 0);
    if (child == 0) {
        while (getppid() == parent)
            usleep(1000);
        read_on(0);
    }
    spin();
}

static volatile pid_t waited_for;

static void end_it(int signal)
{
    (void)signal;
    kill(waited_for, SIGKILL);
}

/* Children in namespaces of their own, all at once: each is process 1 there. */
void namespaces(void)
{
    enum { AT_ONCE = 8, STEP = 16 };
    int *gate = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(gate != MAP_FAILED);
    for (size_t page = 0; page < pages; page++)
        put(page, 1);
    for (int round = 1; round <= 10; round++) {
        pid_t makers[AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++) {
            makers[i] = fork();
            if (makers[i] != 0)
                continue;
            signal(SIGALRM, end_it);
            CHECK(unshare(CLONE_NEWPID) == 0);
            __atomic_add_fetch(gate, 1, __ATOMIC_SEQ_CST);
            while (__atomic_load_n(gate, __ATOMIC_SEQ_CST) < round * AT_ONCE)
                sched_yield();
            alarm(60);
            waited_for = fork();
            if (waited_for == 0) {
                CHECK(getpid() == 1);
                CHECK(madvise((void *)memory, bytes / 2, MADV_DONTNEED) == 0);
                for (size_t page = i; page < pages; page += STEP) {
                    CHECK(page < pages / 2 ? *first_of(page) == 0 : has(page, 1));
                    put(page, 2 + i);
                }
                for (size_t page = i; page < pages; page += STEP)
                    CHECK(has(page, 2 + i));
                _exit(0);
            }
            wait_for(waited_for);
            _exit(0);
        }
        for (int i = 0; i < AT_ONCE; i++)
            wait_for(makers[i]);
    }
}
