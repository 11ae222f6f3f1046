/* A client of many streams, from one thread, fast enough not to be what is measured.
 *
 *   load PORT STREAMS SECONDS CHUNKS [IDLE]
 *
 * Each of STREAMS connections asks for CHUNKS chunks, again and again for SECONDS; IDLE more are opened and send
 * nothing. Prints one line of JSON: chunks, time to the first chunk and each chunk's time on its way, in microseconds
 * (the stub writes its clock into each chunk, and both read the same one).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
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

enum { MOST = 65536, BUFFER = 65536, SAMPLES = 1 << 22 };

typedef struct {
    char data[BUFFER + 1];
    int have, first;                      /* bytes kept from the last read; whether the first chunk is still to come */
    long long sent;
} Stream;

static Stream *streams[MOST];
static int *ttft, *delay, ttfts, delays, requests, errors;
static char request[512];
static int request_size;

static long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int connected(int port) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, (struct sockaddr *)&at, sizeof at)) return close(fd), -1;
    return fd;
}

static void ask(int fd) {
    Stream *s = streams[fd];
    s->first = 1;
    s->sent = now_ns();
    if (write(fd, request, request_size) != request_size) errors++;
}

static void readable(int fd, int again) {
    Stream *s = streams[fd];
    ssize_t n = read(fd, s->data + s->have, BUFFER - s->have);
    if (n <= 0) {
        errors++;
        close(fd);
        return;
    }
    long long now = now_ns();
    s->have += n;
    s->data[s->have] = 0;
    char *at = s->data, *found;
    while ((found = strstr(at, "\"stamp\":"))) {
        char *end = strchr(found, '}');
        if (!end) break;
        if (delays < SAMPLES) delay[delays++] = (now - atoll(found + 8)) / 1000;
        if (s->first && ttfts < SAMPLES) ttft[ttfts++] = (now - s->sent) / 1000;
        s->first = 0;
        at = end;
    }
    if (strstr(at, "0\r\n\r\n") && strstr(at, "[DONE]")) {
        requests++;
        s->have = 0;
        if (again) ask(fd);
        return;
    }
    if (strncmp(s->data, "HTTP/1.1 200", 12) && s->first && s->have > 12) errors++;
    s->have = s->data + s->have - at;
    memmove(s->data, at, s->have + 1);
    if (s->have > BUFFER / 2) s->have = 0;
}

static int by_value(const void *a, const void *b) { return *(int *)a - *(int *)b; }

static void show(const char *name, int *values, int count, const char *end) {
    qsort(values, count, sizeof(int), by_value);
    printf("\"%s\":{\"p50\":%d,\"p99\":%d,\"max\":%d}%s", name, count ? values[count / 2] : -1,
           count ? values[(int)(count * 0.99)] : -1, count ? values[count - 1] : -1, end);
}

int main(int count, char **argument) {
    int port = atoi(argument[1]), wanted = atoi(argument[2]), chunks = atoi(argument[4]);
    double seconds = atof(argument[3]);
    int idle = count > 5 ? atoi(argument[5]) : 0;
    signal(SIGPIPE, SIG_IGN);
    struct rlimit files = {MOST, MOST};
    setrlimit(RLIMIT_NOFILE, &files);
    ttft = malloc(SAMPLES * sizeof(int));
    delay = malloc(SAMPLES * sizeof(int));
    char body[256];
    int size = sprintf(body, "{\"model\":\"stub\",\"stream\":true,\"max_tokens\":%d,\"messages\":[{\"role\":\"user\","
                             "\"content\":\"Tell me a story.\"}]}", chunks);
    request_size = sprintf(request, "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: "
                           "application/json\r\ncontent-length: %d\r\n\r\n%s", size, body);
    int poll = epoll_create1(0);
    for (int i = 0; i < idle; i++)
        if (connected(port) < 0) errors++;
    long long begun = now_ns(), end = begun + (long long)(seconds * 1e9);
    for (int i = 0; i < wanted; i++) {
        int fd = connected(port);
        if (fd < 0) { errors++; continue; }
        streams[fd] = calloc(1, sizeof(Stream));
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event);
        ask(fd);
    }
    struct epoll_event events[512];
    while (now_ns() < end) {
        int n = epoll_wait(poll, events, 512, 100);
        for (int i = 0; i < n; i++) readable(events[i].data.fd, now_ns() < end);
    }
    double took = (now_ns() - begun) / 1e9;
    printf("{\"streams\":%d,\"idle\":%d,\"requests\":%d,\"errors\":%d,\"chunks\":%d,\"seconds\":%.2f,"
           "\"chunks_per_s\":%.0f,", wanted, idle, requests, errors, delays, took, delays / took);
    show("ttft_us", ttft, ttfts, ",");
    show("delay_us", delay, delays, "}\n");
    return 0;
}
