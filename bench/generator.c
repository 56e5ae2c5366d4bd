/* The load generator: one process, one thread, no JSON library, no HTTP library.
 *
 * It reads a plan (see read_plan), starts the server that the plan names, opens the protocol, and then
 * runs the legs of the plan one after the other: a warm-up, a drain, a measurement, a drain. Requests are
 * templates whose nine-digit id is overwritten in place, so building one costs a memcpy. Every response is
 * checked (id in flight, expected value, no error, HTTP 200); the first that is not as expected ends the
 * run with its bytes, because a fast wrong answer must never become a number.
 *
 * Output: one JSON object per line: "start", one "leg" each, "exit", or "error". Linux only (epoll, /proc).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ID_MARK "#########" /* nine digits: ids have one width, so lengths never change */
#define ID_WIDTH 9
#define FIRST_ID 100000000
#define SLOTS 8192 /* more than any window; an id lives in slot id % SLOTS */
#define MAX_LEGS 32
#define BUFFER (8u << 20)
#define SILENCE_MS 30000 /* a server that says nothing for this long has failed */

typedef enum { EXPECT_SUM, EXPECT_TEXT, EXPECT_COUNT } Expect;

typedef struct {
    char *bytes;
    size_t length;
    size_t marks[8];
    int mark_count;
} Template;

typedef struct {
    const char *name, *body, *headers;
    Template request;
    Expect expect;
    const char *needle;
    long number; /* the addend of EXPECT_SUM, the count of EXPECT_COUNT */
    int window;
    double warm, measure, limit;
    long requests; /* > 0: this many requests instead of a duration */
} Leg;

typedef struct {
    const char *body, *headers;
    int wants_reply;
} Opening;

static struct {
    int http, port, pin_server, pin_generator;
    char *exec[64];
    int exec_count;
    Opening openings[8];
    int opening_count;
    Leg legs[MAX_LEGS];
    int leg_count;
} plan = {.pin_server = -1, .pin_generator = -1};

static pid_t server;
static int server_in = -1, server_out = -1; /* our ends of the pipes of a stdio server */
static char session[512];
static char *in_buffer;
static size_t in_length;

static struct {
    long id; /* 0: free */
    int64_t sent;
} slots[SLOTS];
static long next_id = FIRST_ID;
static long in_flight;

/* ---- time, output, failure ------------------------------------------------------------------------ */

static int64_t clock_ns(clockid_t clock) {
    struct timespec t;
    if (clock_gettime(clock, &t)) return 0;
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
static int64_t now(void) { return clock_ns(CLOCK_MONOTONIC); }

static void print_json_string(const char *text, size_t length) {
    putchar('"');
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\') printf("\\%c", c);
        else if (c < 0x20 || c >= 0x7f) printf("\\u%04x", c);
        else putchar(c);
    }
    putchar('"');
}

static void stop_server(void) {
    if (server > 0) kill(-server, SIGKILL), kill(server, SIGKILL), waitpid(server, NULL, 0);
    server = 0;
}

static void __attribute__((noreturn, format(printf, 3, 4)))
fail(const char *bytes, size_t length, const char *format, ...) {
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    printf("{\"event\":\"error\",\"message\":");
    print_json_string(message, strlen(message));
    printf(",\"bytes\":");
    print_json_string(bytes, length > 1500 ? 1500 : length);
    printf("}\n");
    fflush(stdout);
    stop_server();
    exit(1);
}
#define FAIL(...) fail("", 0, __VA_ARGS__)

/* ---- the server's process tree: CPU and memory ---------------------------------------------------- */

static int tree(pid_t *pids, int capacity) {
    static pid_t all[65536][2];
    int count = 0, found = 1;
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc && (entry = readdir(proc)) && count < 65536;) {
        if (!isdigit((unsigned char)entry->d_name[0])) continue;
        char path[64], text[512];
        snprintf(path, sizeof path, "/proc/%.20s/stat", entry->d_name);
        FILE *file = fopen(path, "r");
        if (!file) continue;
        size_t length = fread(text, 1, sizeof text - 1, file);
        fclose(file);
        text[length] = 0;
        char *close = strrchr(text, ')'); /* the name may hold anything */
        if (!close) continue;
        all[count][0] = (pid_t)atoi(entry->d_name);
        all[count++][1] = (pid_t)atoi(close + 4);
    }
    if (proc) closedir(proc);
    pids[0] = server;
    for (int i = 0; i < found; i++)
        for (int j = 0; j < count && found < capacity; j++)
            if (all[j][1] == pids[i]) pids[found++] = all[j][0];
    return found;
}

/* The CPU clock of a process counts all its threads, dead ones too, in nanoseconds. */
static double tree_cpu_seconds(void) {
    pid_t pids[256];
    double total = 0;
    for (int i = 0, n = tree(pids, 256); i < n; i++) {
        clockid_t clock;
        if (!clock_getcpuclockid(pids[i], &clock)) total += clock_ns(clock) / 1e9;
    }
    return total;
}

/* Seconds that the live threads were ready to run but had no core: what other work on the machine took away. */
static double tree_waited_seconds(void) {
    pid_t pids[256];
    double total = 0;
    for (int i = 0, n = tree(pids, 256); i < n; i++) {
        char path[320];
        snprintf(path, sizeof path, "/proc/%d/task", pids[i]);
        DIR *tasks = opendir(path);
        for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
            unsigned long long ran, waited;
            snprintf(path, sizeof path, "/proc/%d/task/%.20s/schedstat", pids[i], entry->d_name);
            FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
            if (!file) continue;
            if (fscanf(file, "%llu %llu", &ran, &waited) == 2) total += waited / 1e9;
            fclose(file);
        }
        if (tasks) closedir(tasks);
    }
    return total;
}

static double tree_rss_mib(void) {
    pid_t pids[256];
    double pages = 0;
    for (int i = 0, n = tree(pids, 256); i < n; i++) {
        char path[64];
        long size, resident;
        snprintf(path, sizeof path, "/proc/%d/statm", pids[i]);
        FILE *file = fopen(path, "r");
        if (!file) continue;
        if (fscanf(file, "%ld %ld", &size, &resident) == 2) pages += resident;
        fclose(file);
    }
    return pages * sysconf(_SC_PAGESIZE) / 1048576.0;
}

/* ---- latencies: a log-linear histogram, 128 steps per power of two --------------------------------- */

static uint32_t histogram[64 * 128];
static long histogram_total;

static int bucket_of(uint64_t ns) {
    if (ns < 128) return (int)ns;
    int power = 63 - __builtin_clzll(ns);
    return (power - 6) * 128 + (int)((ns >> (power - 7)) & 127);
}
static double bucket_us(int bucket) {
    if (bucket < 128) return bucket / 1e3;
    int power = bucket / 128 + 6;
    return ((double)((128ull + bucket % 128) << (power - 7)) + (1ull << (power - 7)) / 2.0) / 1e3;
}
static double percentile(double part) {
    long wanted = (long)(part * (histogram_total - 1)), seen = 0;
    for (int i = 0; i < 64 * 128; i++)
        if ((seen += histogram[i]) > wanted) return bucket_us(i);
    return 0;
}

/* ---- requests and the check of every response ------------------------------------------------------ */

static Template make_template(const char *body, const char *headers) {
    Template t = {0};
    size_t body_length = strlen(body);
    t.bytes = malloc(body_length + strlen(headers) + sizeof session + 512);
    if (plan.http) {
        char *p = t.bytes;
        p += sprintf(p, "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
                        "Accept: application/json, text/event-stream\r\n%s", plan.port, headers);
        if (session[0]) p += sprintf(p, "Mcp-Session-Id: %s\r\n", session);
        p += sprintf(p, "Content-Length: %zu\r\n\r\n%s", body_length, body);
        t.length = (size_t)(p - t.bytes);
    } else {
        t.length = (size_t)sprintf(t.bytes, "%s\n", body);
    }
    for (char *p = t.bytes; (p = strstr(p, ID_MARK)); p += ID_WIDTH) {
        if (t.mark_count == 8) FAIL("too many ids in one template");
        t.marks[t.mark_count++] = (size_t)(p - t.bytes);
    }
    return t;
}

static void put_digits(char *at, long number) {
    for (int i = ID_WIDTH - 1; i >= 0; i--, number /= 10) at[i] = (char)('0' + number % 10);
}

static void fill(char *at, const Template *t) {
    long id = next_id++;
    if (slots[id % SLOTS].id) FAIL("more requests in flight than slots");
    memcpy(at, t->bytes, t->length);
    for (int i = 0; i < t->mark_count; i++) put_digits(at + t->marks[i], id);
    slots[id % SLOTS].id = id;
    in_flight++;
}

/* The id of the message itself: before the first nested object, or after the last one closed. */
static const char *find_id(const char *text, size_t length, long *id) {
    const char *end = text + length, *at, *stop;
    char *after;
    stop = memchr(text + 1, '{', length - 1);
    at = memmem(text, (size_t)((stop ? stop : end) - text), "\"id\":", 5);
    if (!at) {
        const char *close = memrchr(text, '}', length - 1);
        if (!close || !(at = memmem(close, (size_t)(end - close), "\"id\":", 5))) return NULL;
    }
    at += 5;
    while (at < end && *at == ' ') at++;
    if (at == end || !isdigit((unsigned char)*at)) return NULL;
    *id = strtol(at, &after, 10);
    return after - at == ID_WIDTH || *id < FIRST_ID ? at : NULL;
}

static int has_text_value(const char *text, size_t length, const char *value, size_t value_length) {
    const char *end = text + length, *at = text;
    while ((at = memmem(at, (size_t)(end - at), "\"text\":", 7))) {
        at += 7;
        while (at < end && *at == ' ') at++;
        if ((size_t)(end - at) > value_length + 1 && *at == '"' && at[value_length + 1] == '"' &&
            !memcmp(at + 1, value, value_length))
            return 1;
    }
    return 0;
}

static char *seen; /* a list reply that was counted in full; an equal one needs no second count */
static size_t seen_length, seen_id;

static void check_value(const Leg *leg, const char *text, size_t length, long id, size_t id_at) {
    char digits[ID_WIDTH];
    long count = 0;
    switch (leg->expect) {
    case EXPECT_SUM:
        put_digits(digits, id + leg->number);
        if (!has_text_value(text, length, digits, ID_WIDTH))
            fail(text, length, "%s: the result is not %ld", leg->name, id + leg->number);
        break;
    case EXPECT_TEXT:
        if (!has_text_value(text, length, leg->needle, strlen(leg->needle)))
            fail(text, length, "%s: the expected text is missing", leg->name);
        break;
    case EXPECT_COUNT:
        if (seen && length == seen_length && id_at == seen_id && !memcmp(text, seen, id_at) &&
            !memcmp(text + id_at + ID_WIDTH, seen + id_at + ID_WIDTH, length - id_at - ID_WIDTH))
            return;
        for (const char *p = text; (p = memmem(p, (size_t)(text + length - p), leg->needle, strlen(leg->needle))); p++)
            count++;
        if (count != leg->number)
            fail(text, length, "%s: %ld times %s, expected %ld", leg->name, count, leg->needle, leg->number);
        free(seen);
        seen = memcpy(malloc(length), text, length);
        seen_length = length, seen_id = id_at;
    }
    if (memmem(text, length, "\"error\"", 7) || memmem(text, length, "\"isError\":true", 14) ||
        memmem(text, length, "\"isError\": true", 15))
        fail(text, length, "%s: an error", leg->name);
}

static int measuring;
static char *sample;
static size_t sample_length;

/* One JSON-RPC message. Returns 1 for the response to one of our requests, 0 for a notification. */
static int check_message(const Leg *leg, const char *text, size_t length, int64_t arrived) {
    long id = 0;
    while (length && isspace((unsigned char)text[length - 1])) length--;
    if (!length) return 0;
    const char *at = find_id(text, length, &id);
    if (!at) {
        if (memmem(text, length, "\"method\":\"notifications/", 24)) return 0;
        fail(text, length, "%s: a message without an id", leg->name);
    }
    if (id < FIRST_ID || slots[id % SLOTS].id != id) fail(text, length, "%s: id %ld is not in flight", leg->name, id);
    check_value(leg, text, length, id, (size_t)(at - text));
    if (measuring) {
        int64_t waited = arrived - slots[id % SLOTS].sent;
        histogram[bucket_of((uint64_t)(waited < 0 ? 0 : waited))]++;
        histogram_total++;
        if (!sample) sample = memcpy(malloc(length), text, sample_length = length);
    }
    slots[id % SLOTS].id = 0;
    in_flight--;
    return 1;
}

/* ---- HTTP ------------------------------------------------------------------------------------------- */

typedef struct {
    int fd;
    char *buffer;
    size_t length, capacity;
} Connection;

typedef struct {
    int status, event_stream;
    char *head, *body;
    size_t head_length, body_length;
} Reply;

static char *header(const Reply *reply, const char *name) {
    char *line = memmem(reply->head, reply->head_length, "\r\n", 2);
    size_t length = strlen(name);
    while (line && (line += 2) < reply->head + reply->head_length) {
        if (!strncasecmp(line, name, length) && line[length] == ':') {
            line += length + 1;
            while (*line == ' ') line++;
            return line;
        }
        line = memmem(line, (size_t)(reply->head + reply->head_length - line), "\r\n", 2);
    }
    return NULL;
}

/* Returns the bytes that a chunked body takes, 0 while incomplete; joins the chunks once it is whole. */
static size_t join_chunks(char *body, size_t length, size_t *joined) {
    for (int writing = 0; writing < 2; writing++) {
        char *p = body, *end = body + length, *out = body;
        for (;;) {
            char *line = memmem(p, (size_t)(end - p), "\r\n", 2);
            if (!line) return 0;
            size_t size = strtoul(p, NULL, 16);
            if ((size_t)(end - line - 2) < size + 2) return 0;
            if (writing) memmove(out, line + 2, size), out += size;
            p = line + 2 + size + 2;
            if (!size) break;
        }
        if (writing) {
            *joined = (size_t)(out - body);
            return (size_t)(p - body);
        }
    }
    return 0;
}

/* Returns 1 when the connection's buffer holds exactly one whole reply. */
static int whole_reply(Connection *c, Reply *reply) {
    c->buffer[c->length] = 0;
    char *end = memmem(c->buffer, c->length, "\r\n\r\n", 4), *value;
    if (!end) return 0;
    *reply = (Reply){.head = c->buffer, .head_length = (size_t)(end + 2 - c->buffer), .body = end + 4};
    if (c->length < 12 || memcmp(c->buffer, "HTTP/1.1 ", 9)) fail(c->buffer, c->length, "not an HTTP/1.1 reply");
    reply->status = atoi(c->buffer + 9);
    size_t available = c->length - (size_t)(reply->body - c->buffer), taken = 0;
    if ((value = header(reply, "transfer-encoding")) && !strncasecmp(value, "chunked", 7)) {
        if (!(taken = join_chunks(reply->body, available, &reply->body_length))) return 0;
    } else if ((value = header(reply, "content-length"))) {
        if (available < (taken = reply->body_length = strtoul(value, NULL, 10))) return 0;
    } else if (reply->status == 200) {
        fail(c->buffer, c->length, "a reply without a length");
    }
    if (taken != available) fail(c->buffer, c->length, "%zu bytes after the reply", available - taken);
    value = header(reply, "content-type");
    reply->event_stream = value && !strncasecmp(value, "text/event-stream", 17);
    return 1;
}

static Connection connect_to_server(int attempts) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)plan.port)};
    Connection c = {.capacity = 256 << 10};
    int one = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (;;) {
        c.fd = socket(AF_INET, SOCK_STREAM, 0);
        if (c.fd < 0) FAIL("socket: %s", strerror(errno));
        if (!connect(c.fd, (struct sockaddr *)&address, sizeof address)) break;
        close(c.fd);
        if (waitpid(server, NULL, WNOHANG) == server) server = 0, FAIL("the server ended before it listened");
        if (!--attempts) FAIL("the server does not listen on port %d", plan.port);
        usleep(2000);
    }
    setsockopt(c.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c.buffer = malloc(c.capacity + 1);
    return c;
}

static void send_all(int fd, const char *bytes, size_t length) {
    while (length) {
        ssize_t n = write(fd, bytes, length);
        if (n < 0 && errno != EAGAIN && errno != EINTR) FAIL("write: %s", strerror(errno));
        if (n < 0) {
            struct pollfd wait = {.fd = fd, .events = POLLOUT};
            if (!poll(&wait, 1, SILENCE_MS)) FAIL("the server stopped reading");
            continue;
        }
        bytes += n, length -= (size_t)n;
    }
}

static void receive(Connection *c) {
    if (c->length == c->capacity) c->buffer = realloc(c->buffer, (c->capacity *= 2) + 1);
    ssize_t n = read(c->fd, c->buffer + c->length, c->capacity - c->length);
    if (n < 0 && errno == EINTR) return;
    if (n <= 0) fail(c->buffer, c->length, "the server closed a connection");
    c->length += (size_t)n;
}

static int check_reply(const Leg *leg, const Reply *reply, int64_t arrived) {
    if (reply->status != 200) fail(reply->head, strlen(reply->head), "%s: HTTP %d", leg->name, reply->status);
    if (!reply->event_stream) return check_message(leg, reply->body, reply->body_length, arrived);
    int responses = 0;
    char *line = reply->body, *end = line + reply->body_length;
    while (line < end) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop) stop = end;
        if (stop - line > 5 && !memcmp(line, "data:", 5)) {
            char *data = line + 5 + (line[5] == ' ');
            responses += check_message(leg, data, (size_t)(stop - data), arrived);
        }
        line = stop + 1;
    }
    return responses;
}

/* ---- the two transports: keep the window full until the end, then drain ----------------------------- */

typedef struct {
    const Leg *leg;
    int64_t begin, last;
    double seconds;
    long done, least, exact;
} Phase;

static int finished(const Phase *p, long sent, int64_t at) {
    double spent = (at - p->begin) / 1e9;
    if (p->exact) return sent >= p->exact || spent > p->leg->limit;
    return spent >= p->seconds && (p->done >= p->least || spent > p->leg->limit);
}

static void run_stdio(Phase *p) {
    static char *out;
    static size_t out_capacity;
    const Template *t = &p->leg->request;
    size_t out_length = 0, out_done = 0;
    long sent = 0;
    int stop = 0;
    if (out_capacity < t->length * (size_t)p->leg->window)
        out = realloc(out, out_capacity = t->length * (size_t)p->leg->window);
    while (!stop || in_flight) {
        stop = stop || finished(p, sent, now());
        if (!stop && out_done == out_length) {
            long first = next_id;
            out_done = out_length = 0;
            while (in_flight < p->leg->window && !(p->exact && sent >= p->exact)) {
                fill(out + out_length, t);
                out_length += t->length, sent++;
            }
            int64_t at = now();
            for (long id = first; id < next_id; id++) slots[id % SLOTS].sent = at;
        }
        if (out_done < out_length) {
            ssize_t n = write(server_in, out + out_done, out_length - out_done);
            if (n < 0 && errno != EAGAIN && errno != EINTR) FAIL("write: %s", strerror(errno));
            if (n > 0) out_done += (size_t)n;
        }
        if (!in_flight) continue;
        struct pollfd waits[2] = {{.fd = server_out, .events = POLLIN}, {.fd = server_in, .events = POLLOUT}};
        int ready = poll(waits, out_done < out_length ? 2 : 1, SILENCE_MS);
        if (!ready) FAIL("%s: silence with %ld requests in flight", p->leg->name, in_flight);
        if (!(waits[0].revents & (POLLIN | POLLHUP))) continue;
        ssize_t n = read(server_out, in_buffer + in_length, BUFFER - in_length);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (n <= 0) fail(in_buffer, in_length, "%s: the server closed its output", p->leg->name);
        in_length += (size_t)n;
        p->last = now();
        char *line = in_buffer, *end = in_buffer + in_length, *newline;
        while ((newline = memchr(line, '\n', (size_t)(end - line)))) {
            p->done += check_message(p->leg, line, (size_t)(newline - line), p->last);
            line = newline + 1;
        }
        in_length = (size_t)(end - line);
        if (in_length == BUFFER) fail(in_buffer, in_length, "a line longer than the buffer");
        memmove(in_buffer, line, in_length);
    }
}

static Connection *connections;

static void post_next(Connection *c, const Template *t) {
    static char *out;
    static size_t capacity;
    long id = next_id;
    if (capacity < t->length) out = realloc(out, capacity = t->length);
    fill(out, t);
    slots[id % SLOTS].sent = now();
    send_all(c->fd, out, t->length);
}

static void run_http(Phase *p) {
    struct epoll_event events[256];
    const Template *t = &p->leg->request;
    long sent = 0;
    int poller = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < p->leg->window; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        epoll_ctl(poller, EPOLL_CTL_ADD, connections[i].fd, &event);
        post_next(&connections[i], t);
        sent++;
    }
    while (in_flight) {
        int count = epoll_wait(poller, events, 256, SILENCE_MS);
        if (!count) FAIL("%s: silence with %ld requests in flight", p->leg->name, in_flight);
        for (int i = 0; i < count; i++) {
            Connection *c = &connections[events[i].data.u32];
            Reply reply;
            receive(c);
            if (!whole_reply(c, &reply)) continue;
            p->last = now();
            if (check_reply(p->leg, &reply, p->last) != 1)
                fail(c->buffer, c->length, "%s: not one response in the reply", p->leg->name);
            p->done++;
            c->length = 0;
            if (!finished(p, sent, p->last)) post_next(c, t), sent++;
        }
    }
    close(poller);
}

static void run_phase(Phase *p) {
    p->begin = p->last = now();
    plan.http ? run_http(p) : run_stdio(p);
}

static void run_leg(Leg *leg) {
    leg->request = make_template(leg->body, leg->headers);
    if (plan.http) {
        connections = calloc((size_t)leg->window, sizeof *connections);
        for (int i = 0; i < leg->window; i++) connections[i] = connect_to_server(100);
    }
    free(seen), free(sample), seen = sample = NULL;
    if (leg->warm > 0) {
        Phase warm = {.leg = leg, .seconds = leg->warm, .least = 2 * leg->window};
        run_phase(&warm);
    }
    memset(histogram, 0, sizeof histogram);
    histogram_total = 0;
    Phase phase = {.leg = leg, .seconds = leg->measure, .least = 10L * leg->window, .exact = leg->requests};
    double waited = tree_waited_seconds(), server_cpu = tree_cpu_seconds();
    int64_t own_cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    measuring = 1;
    run_phase(&phase);
    measuring = 0;
    double own = (clock_ns(CLOCK_PROCESS_CPUTIME_ID) - own_cpu) / 1e9;
    server_cpu = tree_cpu_seconds() - server_cpu;
    waited = tree_waited_seconds() - waited;
    double seconds = (phase.last - phase.begin) / 1e9;
    printf("{\"event\":\"leg\",\"leg\":\"%s\",\"requests\":%ld,\"seconds\":%.6f,\"rate\":%.1f,\"p50_us\":%.2f,"
           "\"p99_us\":%.2f,\"generator_cpu_s\":%.6f,\"busy\":%.4f,\"server_cpu_us\":%.3f,\"waited\":%.4f,"
           "\"rss_mib\":%.3f,\"sample\":",
           leg->name, phase.done, seconds, phase.done / seconds, percentile(0.5), percentile(0.99), own,
           own / seconds, server_cpu * 1e6 / phase.done, waited > 0 ? waited / seconds : 0, tree_rss_mib());
    print_json_string(sample ? sample : "", sample ? sample_length : 0);
    printf("}\n");
    fflush(stdout);
    if (plan.http) {
        for (int i = 0; i < leg->window; i++) close(connections[i].fd), free(connections[i].buffer);
        free(connections);
    }
}

/* ---- start, opening, end ----------------------------------------------------------------------------- */

static void pin(int core) {
    cpu_set_t set;
    if (core < 0) return;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void start_server(void) {
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC)) FAIL("pipe: %s", strerror(errno));
    server = fork();
    if (!server) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pin(plan.pin_server);
        int none = open("/dev/null", O_RDONLY | O_CLOEXEC);
        dup2(plan.http ? none : to[0], 0);
        dup2(plan.http ? 2 : from[1], 1);
        execvp(plan.exec[0], plan.exec);
        dprintf(2, "cannot start %s: %s\n", plan.exec[0], strerror(errno));
        _exit(127);
    }
    close(to[0]), close(from[1]);
    server_in = to[1], server_out = from[0];
    fcntl(server_in, F_SETFL, O_NONBLOCK);
    fcntl(server_out, F_SETFL, O_NONBLOCK);
}

static void open_stdio(const Opening *o, const Template *t) {
    send_all(server_in, t->bytes, t->length);
    while (o->wants_reply) {
        struct pollfd wait = {.fd = server_out, .events = POLLIN};
        if (!poll(&wait, 1, SILENCE_MS)) fail(t->bytes, t->length, "no answer to the opening");
        ssize_t n = read(server_out, in_buffer + in_length, BUFFER - in_length);
        if (n <= 0) fail(t->bytes, t->length, "the server ended at the opening");
        in_length += (size_t)n;
        char *newline = memchr(in_buffer, '\n', in_length);
        if (!newline) continue;
        if (!memmem(in_buffer, (size_t)(newline - in_buffer), "\"result\"", 8)) fail(in_buffer, in_length, "the opening was refused");
        in_length = (size_t)(in_buffer + in_length - newline - 1);
        memmove(in_buffer, newline + 1, in_length);
        return;
    }
}

static void open_http(const Opening *o, const Template *t) {
    Connection c = connect_to_server(15000);
    Reply reply;
    send_all(c.fd, t->bytes, t->length);
    do {
        struct pollfd wait = {.fd = c.fd, .events = POLLIN};
        if (!poll(&wait, 1, SILENCE_MS)) fail(t->bytes, t->length, "no answer to the opening");
        receive(&c);
    } while (!whole_reply(&c, &reply));
    if (reply.status != (o->wants_reply ? 200 : 202) ||
        (o->wants_reply && !memmem(reply.body, reply.body_length, "\"result\"", 8)))
        fail(c.buffer, c.length, "the opening was refused");
    char *id = header(&reply, "mcp-session-id");
    if (id) snprintf(session, sizeof session, "%.*s", (int)strcspn(id, "\r\n"), id);
    close(c.fd), free(c.buffer);
}

static void open_protocol(void) {
    int64_t begin = now();
    double ready = 0, cpu = 0;
    start_server();
    for (int i = 0; i < plan.opening_count; i++) {
        Template t = make_template(plan.openings[i].body, plan.openings[i].headers);
        plan.http ? open_http(&plan.openings[i], &t) : open_stdio(&plan.openings[i], &t);
        if (!i) ready = (now() - begin) / 1e6, cpu = tree_cpu_seconds() * 1e3;
        free(t.bytes);
    }
    usleep(100000); /* let the server settle before its memory is read */
    printf("{\"event\":\"start\",\"start_ms\":%.2f,\"start_cpu_ms\":%.2f,\"rss_mib\":%.3f,\"session\":%s}\n", ready, cpu,
           tree_rss_mib(), session[0] ? "true" : "false");
    fflush(stdout);
}

static void end_server(void) {
    int64_t begin = now();
    int status = 0, forced = 0;
    close(server_in);
    if (plan.http) kill(server, SIGTERM);
    while (waitpid(server, &status, WNOHANG) != server) {
        double waited = (now() - begin) / 1e9;
        if (waited > 3 && !forced) forced = 1, kill(-server, SIGTERM);
        if (waited > 5) kill(-server, SIGKILL), forced = 2;
        usleep(1000);
    }
    kill(-server, SIGKILL); /* children that outlived it */
    server = 0;
    printf("{\"event\":\"exit\",\"exit_ms\":%.1f,\"status\":%d,\"forced\":%d}\n", (now() - begin) / 1e6,
           WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), forced);
}

/* ---- the plan: one "key<TAB>value" per line; header lines belong to the message after them ------------ */

static void read_expect(Leg *leg, char *value) {
    char *rest = strchr(value, '\t');
    if (!rest) FAIL("plan: bad expect");
    *rest++ = 0;
    if (!strcmp(value, "sum")) leg->expect = EXPECT_SUM, leg->number = atol(rest);
    else if (!strcmp(value, "text")) leg->expect = EXPECT_TEXT, leg->needle = rest;
    else if (!strcmp(value, "count")) {
        leg->expect = EXPECT_COUNT, leg->number = atol(rest);
        leg->needle = strchr(rest, '\t') + 1;
    } else FAIL("plan: unknown expectation %s", value);
}

static void read_line(char *key, char *value, char *headers) {
    Leg *leg = plan.leg_count ? &plan.legs[plan.leg_count - 1] : NULL;
    if (!strcmp(key, "mode")) plan.http = !strcmp(value, "http");
    else if (!strcmp(key, "port")) plan.port = atoi(value);
    else if (!strcmp(key, "pin")) sscanf(value, "%d,%d", &plan.pin_server, &plan.pin_generator);
    else if (!strcmp(key, "exec") && plan.exec_count < 63) plan.exec[plan.exec_count++] = value;
    else if (!strcmp(key, "header")) strcat(strcat(headers, value), "\r\n");
    else if ((!strcmp(key, "open") || !strcmp(key, "notify")) && plan.opening_count < 8) {
        plan.openings[plan.opening_count++] = (Opening){value, strdup(headers), key[0] == 'o'};
        headers[0] = 0;
    } else if (!strcmp(key, "leg") && plan.leg_count < MAX_LEGS)
        plan.legs[plan.leg_count++] = (Leg){.name = value, .window = 1, .limit = 20};
    else if (!leg) FAIL("plan: %s before any leg", key);
    else if (!strcmp(key, "request")) leg->body = value, leg->headers = strdup(headers), headers[0] = 0;
    else if (!strcmp(key, "expect")) read_expect(leg, value);
    else if (!strcmp(key, "window")) leg->window = atoi(value);
    else if (!strcmp(key, "warm")) leg->warm = atof(value);
    else if (!strcmp(key, "measure")) leg->measure = atof(value);
    else if (!strcmp(key, "limit")) leg->limit = atof(value);
    else if (!strcmp(key, "requests")) leg->requests = atol(value);
    else FAIL("plan: unknown key %s", key);
}

static void read_plan(const char *path) {
    static char headers[8192];
    char *line = NULL;
    size_t capacity = 0;
    FILE *file = fopen(path, "r");
    if (!file) FAIL("plan: %s", strerror(errno));
    while (getline(&line, &capacity, file) > 0) {
        char *copy = strdup(line), *value = strchr(copy, '\t'); /* lives as long as the plan */
        copy[strcspn(copy, "\n")] = 0;
        if (!value) continue;
        *value++ = 0;
        read_line(copy, value, headers);
    }
    fclose(file);
    if (!plan.exec_count || !plan.opening_count) FAIL("plan: no server or no opening");
}

int main(int argc, char **argv) {
    if (argc != 2) return fprintf(stderr, "usage: generator PLAN\n"), 2;
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing outlives the run */
    read_plan(argv[1]);
    in_buffer = malloc(BUFFER);
    pin(plan.pin_generator);
    open_protocol();
    for (int i = 0; i < plan.leg_count; i++) run_leg(&plan.legs[i]);
    end_server();
    return 0;
}
