/* What telling of a request costs a server: both records, in a loop, by one process or several.
 *
 * Licensed under the Apache License 2.0 or the MIT license, as you like.
 *
 *     cc -O2 -o /tmp/cost cost.c && /tmp/cost /run/cost.ring 2
 */
#include "ring.h"

#include <sys/wait.h>

#define REQUESTS 5000000

static uint64_t cpu_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

int main(int count, char **words)
{
    rpo_ring ring = {NULL, 0};
    const char *wrong, path[] = "/shop/item/4711?session=a0b1c2d3";
    int processes = count > 2 ? atoi(words[2]) : 1;
    int i, process;

    if (count < 2) {
        fprintf(stderr, "cost RING [PROCESSES]: a file that is made, and how many write to it\n");
        return 2;
    }
    wrong = rpo_map(&ring, words[1], RPO_RECORDS_DEFAULT);
    if (wrong) {
        fprintf(stderr, "%s %s: %s\n", words[1], wrong, strerror(errno));
        return 1;
    }
    for (process = 0; process < processes; process++) {
        uint64_t from;
        if (fork() != 0)
            continue;
        from = cpu_ns();
        for (i = 0; i < REQUESTS; i++) {
            rpo_request kept;
            rpo_arrived(&ring, &kept, "GET", 3, path, sizeof path - 1);
            rpo_completed(&ring, &kept, 200);
        }
        printf("%llu ns a request, both records, of CPU time\n",
               (unsigned long long)(cpu_ns() - from) / REQUESTS);
        return 0;
    }
    while (wait(NULL) > 0)
        continue;
    unlink(words[1]);
    return 0;
}
