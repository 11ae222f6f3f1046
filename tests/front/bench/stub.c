/* A stand-in for an engine behind the front: streams chat chunks faster than any engine does, from one thread.
 *
 *   stub PORT [STEP_US] [PAD]
 *
 * STEP_US: time between two steps; in each step every open stream gets one chunk, as in an engine's decode step. 0: as
 * fast as the connections take them. PAD: bytes of text in a chunk. "max_tokens" of a request is its number of chunks,
 * and each chunk carries the moment (CLOCK_MONOTONIC, ns) at which it was written, so that a client on this machine
 * sees how long it was on its way. It hides all that an engine does: prefill, batches, time to compute.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 65536, IN = 16384, OUT = 8192 };

typedef struct {
    char *in;
    int have, left;                       /* bytes read; chunks to send */
    char out[OUT];
    int out_at, out_have;                 /* what the socket did not take yet */
} Conn;

static Conn *conns[MOST];
static int active[MOST], actives, pad = 3;
static char text[4096];

static long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void drop(int fd) {
    for (int i = 0; i < actives; i++)
        if (active[i] == fd) {
            active[i] = active[--actives];
            break;
        }
    free(conns[fd]->in);
    free(conns[fd]);
    conns[fd] = NULL;
    close(fd);
}

static int flush(int fd) {                /* 1: all sent, 0: the socket is full, -1: gone */
    Conn *c = conns[fd];
    while (c->out_at < c->out_have) {
        ssize_t n = write(fd, c->out + c->out_at, c->out_have - c->out_at);
        if (n < 0) return errno == EAGAIN ? 0 : -1;
        c->out_at += n;
    }
    c->out_at = c->out_have = 0;
    return 1;
}

static void put(Conn *c, const char *data, int size) {
    memcpy(c->out + c->out_have, data, size);
    c->out_have += size;
}

static void put_chunk(Conn *c, const char *data, int size) {
    char head[16];
    put(c, head, sprintf(head, "%x\r\n", size));
    put(c, data, size);
    put(c, "\r\n", 2);
}

static int emit(int fd) {                 /* one chunk, or the end; as flush */
    Conn *c = conns[fd];
    if (c->out_have) return flush(fd);
    char line[4600];
    if (c->left-- > 0) {
        int n = sprintf(line,
                        "data: {\"id\":\"chatcmpl-stub\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":"
                        "\"stub\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%s\"},\"logprobs\":null,"
                        "\"finish_reason\":null,\"matched_stop\":null}],\"stamp\":%lld}\n\n", text, now_ns());
        put_chunk(c, line, n);
        return flush(fd);
    }
    put_chunk(c, "data: [DONE]\n\n", 14);
    put(c, "0\r\n\r\n", 5);
    for (int i = 0; i < actives; i++)
        if (active[i] == fd) active[i--] = active[--actives];
    return flush(fd);
}

static void answer(int fd, const char *head, const char *body) {
    Conn *c = conns[fd];
    const char *asked = strstr(body, "\"max_tokens\":");
    int tokens = asked ? atoi(asked + 13) : 16;
    if (strstr(body, "\"stream\":true") || strstr(body, "\"stream\": true")) {
        static const char start[] = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
                                    "transfer-encoding: chunked\r\n\r\n";
        put(c, start, sizeof start - 1);
        flush(fd);
        c->left = tokens;
        active[actives++] = fd;
        if (emit(fd) < 0) drop(fd);
        return;
    }
    char reply[1024], json[600];
    int size = strncmp(head, "POST", 4) ? sprintf(json, "{\"object\":\"list\",\"data\":[]}")
        : sprintf(json, "{\"id\":\"chatcmpl-stub\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"stub\","
                  "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"ok\"},\"finish_reason\":"
                  "\"stop\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1,\"total_tokens\":2}}");
    put(c, reply, sprintf(reply, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s",
                          size, json));
    flush(fd);
}

static void readable(int fd) {
    Conn *c = conns[fd];
    ssize_t n = read(fd, c->in + c->have, IN - 1 - c->have);
    if (n <= 0) {
        if (n == 0 || errno != EAGAIN) drop(fd);
        return;
    }
    c->have += n;
    c->in[c->have] = 0;
    char *end = strstr(c->in, "\r\n\r\n");
    if (!end) return;
    const char *length = strcasestr(c->in, "\r\ncontent-length:");
    int body = length && length < end ? atoi(length + 17) : 0;
    int chunked = strcasestr(c->in, "transfer-encoding: chunked") != NULL;
    if (chunked ? !strstr(end, "0\r\n\r\n") : c->have < end + 4 - c->in + body) return;
    c->have = 0;
    answer(fd, c->in, end + 4);
}

static void accept_all(int listener, int poll) {
    for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
        int one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (fd >= MOST) { close(fd); continue; }
        conns[fd] = calloc(1, sizeof(Conn));
        conns[fd]->in = malloc(IN);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event);
    }
}

int main(int count, char **argument) {
    int port = atoi(argument[1]), step_us = count > 2 ? atoi(argument[2]) : 0;
    if (count > 3) pad = atoi(argument[3]);
    memset(text, 'x', pad < 4000 ? pad : 4000);
    signal(SIGPIPE, SIG_IGN);
    struct rlimit files = {MOST, MOST};
    setrlimit(RLIMIT_NOFILE, &files);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1, poll = epoll_create1(0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 4096)) return perror("listen"), 1;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[512];
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);
    long long due = now_ns();
    for (;;) {
        long long wait = step_us ? due - now_ns() : 0;
        struct timespec bound = {wait > 0 ? wait / 1000000000 : 0, wait > 0 ? wait % 1000000000 : 0}, idle = {1, 0};
        int n = epoll_pwait2(poll, events, 512, actives ? &bound : &idle, NULL);
        for (int i = 0; i < n; i++)
            if (events[i].data.fd == listener) accept_all(listener, poll);
            else if (conns[events[i].data.fd]) readable(events[i].data.fd);
        if (step_us && now_ns() < due) continue;
        due = (now_ns() > due + 5000000LL * 10 ? now_ns() : due) + step_us * 1000LL;
        for (int i = actives - 1; i >= 0; i--) {
            int fd = active[i];
            if (emit(fd) < 0) drop(fd);
        }
    }
}
