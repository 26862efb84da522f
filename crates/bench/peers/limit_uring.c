/* The barest server there can be, on epoll or io_uring: what would io_uring save?
 *
 * It answers whatever it reads with a page of 16,000 bytes. One thread; the ring takes several
 * completions a wake-up, reads into a ring of buffers (multishot) and sends without asking for
 * success to be told; optionally on descriptors of the ring's own.
 *
 *     cc -O2 -o limit_uring limit_uring.c -luring        (Debian: liburing-dev)
 *     taskset -c 0 ./limit_uring 9000 uring|direct|epoll
 *     taskset -c 1 wrk -t1 -c64 -d1s http://127.0.0.1:9000/
 */
#define _GNU_SOURCE
#include <liburing.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFERS = 1024, BUFFER_BYTES = 4096, BODY = 16000, FILES = 4096 };
enum { ACCEPT = 1, RECEIVE = 2, SEND = 3 };

static char answer[BODY + 200];
static size_t answer_length;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int listening(int port) {
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 512)) fail("listen");
    return listener;
}

static void run_epoll(int listener) {
    int on = 1, loop = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[256];
    static char input[1 << 16];
    epoll_ctl(loop, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int count = epoll_wait(loop, events, 256, -1);
        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                int client = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
                if (client < 0) continue;
                setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                event = (struct epoll_event){.events = EPOLLIN | EPOLLET, .data.fd = client};
                epoll_ctl(loop, EPOLL_CTL_ADD, client, &event);
            } else if (recv(fd, input, sizeof input, 0) <= 0) {
                close(fd);
            } else if (send(fd, answer, answer_length, MSG_NOSIGNAL) < 0) {
                close(fd);
            }
        }
    }
}

static __u64 told_by(int kind, int fd) { return (__u64)kind << 32 | (unsigned)fd; }

static void receive(struct io_uring *ring, int fd, int direct) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
    io_uring_prep_recv_multishot(sqe, fd, NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT | (direct ? IOSQE_FIXED_FILE : 0);
    sqe->buf_group = 0;
    sqe->user_data = told_by(RECEIVE, fd);
}

static void run_uring(int listener, int direct) {
    struct io_uring ring;
    struct io_uring_params params = {.cq_entries = 8192};
    params.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE;
    if (io_uring_queue_init_params(2048, &ring, &params)) fail("io_uring_setup");
    if (direct && io_uring_register_files_sparse(&ring, FILES)) fail("files");
    struct io_uring_buf_ring *buffers;
    if (posix_memalign((void **)&buffers, 4096, BUFFERS * sizeof(struct io_uring_buf))) exit(1);
    struct io_uring_buf_reg group = {.ring_addr = (__u64)buffers, .ring_entries = BUFFERS};
    if (io_uring_register_buf_ring(&ring, &group, 0)) fail("buffers");
    io_uring_buf_ring_init(buffers);
    char *bytes = malloc(BUFFERS * BUFFER_BYTES);
    int mask = io_uring_buf_ring_mask(BUFFERS);
    for (int i = 0; i < BUFFERS; i++)
        io_uring_buf_ring_add(buffers, bytes + i * BUFFER_BYTES, BUFFER_BYTES, i, mask, i);
    io_uring_buf_ring_advance(buffers, BUFFERS);

    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
    if (direct) io_uring_prep_multishot_accept_direct(sqe, listener, NULL, NULL, 0);
    else io_uring_prep_multishot_accept(sqe, listener, NULL, NULL, 0);
    sqe->user_data = told_by(ACCEPT, 0);
    for (;;) {
        unsigned head, count = 0;
        struct io_uring_cqe *cqe;
        io_uring_submit_and_wait(&ring, 1);
        io_uring_for_each_cqe(&ring, head, cqe) {
            int fd = (int)(cqe->user_data & 0xffffffff);
            count++;
            if (cqe->user_data >> 32 == ACCEPT && cqe->res >= 0) receive(&ring, cqe->res, direct);
            if (cqe->user_data >> 32 != RECEIVE) continue;
            if (cqe->res <= 0) {
                if (!direct) close(fd);
                continue;
            }
            int used = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
            char *at = bytes + used * BUFFER_BYTES;
            io_uring_buf_ring_add(buffers, at, BUFFER_BYTES, used, mask, 0);
            io_uring_buf_ring_advance(buffers, 1);
            if (!(cqe->flags & IORING_CQE_F_MORE)) receive(&ring, fd, direct);
            sqe = io_uring_get_sqe(&ring);
            io_uring_prep_send(sqe, fd, answer, answer_length, MSG_NOSIGNAL);
            sqe->flags |= IOSQE_CQE_SKIP_SUCCESS | (direct ? IOSQE_FIXED_FILE : 0);
            sqe->user_data = told_by(SEND, fd);
        }
        io_uring_cq_advance(&ring, count);
    }
}

int main(int count, char **words) {
    if (count != 3) {
        fprintf(stderr, "limit_uring PORT epoll|uring|direct\n");
        return 2;
    }
    int head = sprintf(answer, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", BODY);
    memset(answer + head, 'x', BODY);
    answer_length = head + BODY;
    int listener = listening(atoi(words[1]));
    if (!strcmp(words[2], "epoll")) run_epoll(listener);
    run_uring(listener, !strcmp(words[2], "direct"));
}
